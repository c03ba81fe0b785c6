# The two commands of the README; CMake does the work.
export PATH := $(CURDIR)/build/tools:$(PATH)
JOBS := $(shell nproc 2>/dev/null || echo 2)

.PHONY: all demo test prepare clean
all: prepare
	@cmake --preset release -G Ninja >build/cmake.log || { cat build/cmake.log; exit 1; }
	@cmake --build --preset release

# Compiles the examples for the three targets, assembles them, runs them, compares.
demo: all
	@python3 examples/demo.py --build build/release

# With the sanitizers what is quick; then everything.
test: prepare
	@cmake --preset dev -G Ninja >build/cmake.log || { cat build/cmake.log; exit 1; }
	@cmake --build --preset dev
	@ctest --preset dev -j$(JOBS) -L 'golden|unit'
	@cmake --preset ci -G Ninja >build/cmake.log || { cat build/cmake.log; exit 1; }
	@cmake --build --preset ci
	@ctest --preset ci -j$(JOBS)

prepare:
	@.ci/prepare

clean:
	rm -rf build
