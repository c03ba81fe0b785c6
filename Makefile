# The two commands of the README; CMake does the work.
export PATH := $(CURDIR)/build/tools:$(PATH)
JOBS := $(shell nproc 2>/dev/null || echo 2)
# As many tests as there are cores run at once: threads of NumPy's would wait for each other.
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: all demo test prepare prepare-test clean
all: prepare
	@cmake --preset release -G Ninja >build/cmake.log || { cat build/cmake.log; exit 1; }
	@cmake --build --preset release

# Compiles the examples for the three targets, assembles them, runs them, compares.
demo: all
	@python3 examples/demo.py --build build/release

# With the sanitizers what is quick; then all that is not slow, without the golden tests once more.  ALL=1, which continuous
# integration says: slow tests, too, and units under the sanitizers alone.  SEEDS=4 or 8: more schedules in the simulator.
ALL :=
SEEDS := 2
LEAVE_OUT := $(if $(ALL),-LE golden -E '^unit/|^api/runtime$$',-LE 'slow|golden')
SANITIZED := $(if $(ALL),quick|unit,quick)
test: prepare-test
	@cmake --preset dev -G Ninja >build/cmake.log || { cat build/cmake.log; exit 1; }
	@cmake --build --preset dev
	@ctest --preset dev -j$(JOBS) -L '$(SANITIZED)'
	@cmake --preset ci -G Ninja -DTILEC_SIM_SEEDS=$(SEEDS) >build/cmake.log || { cat build/cmake.log; exit 1; }
	@cmake --build --preset ci
	@ctest --preset ci -j$(JOBS) $(LEAVE_OUT)

prepare:
	@.ci/prepare
prepare-test:
	@.ci/prepare test

clean:
	rm -rf build
