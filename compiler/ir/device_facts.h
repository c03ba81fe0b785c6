/* device_facts.h - what launch expressions may ask of the device that a launch is for. */
#ifndef TILEC_DEVICE_FACTS_H
#define TILEC_DEVICE_FACTS_H

#include <stdint.h>

typedef enum DeviceFact {
    DEVICE_SM_COUNT,  /* multiprocessors */
    DEVICE_SM_SHARED, /* bytes of shared memory of one, for all of its blocks */
    DEVICE_FACTS
} DeviceFact;

typedef struct DeviceFactRow {
    const char *name;      /* in expressions; no size and no scalar has it */
    const char *attribute; /* of the CUDA Driver API, CU_DEVICE_ATTRIBUTE_.. */
    const char *what;      /* for people: "the number of .." */
} DeviceFactRow;

extern const DeviceFactRow device_facts[DEVICE_FACTS];

/* Of one device. */
typedef struct Device {
    int64_t at[DEVICE_FACTS];
} Device;

/* The fact of a name; DEVICE_FACTS: there is none. */
DeviceFact device_fact(const char *name);

#endif
