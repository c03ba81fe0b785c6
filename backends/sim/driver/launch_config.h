/* launch_config.h - CUlaunchConfig and CUlaunchAttribute as the driver lays them out, for the
 * drivers that tests make up. */
#ifndef TESTS_LAUNCH_CONFIG_H
#define TESTS_LAUNCH_CONFIG_H

typedef struct Config {
    unsigned grid[3], block[3], shared;
    void *stream;
    struct {
        unsigned id, pad, value[16];
    } * attributes;
    unsigned n;
} Config;

#endif
