def run(simrun, scratch): return 0, 0
