"""Faults between servers and the API server.

    tests/e2e/run trouble [NAME...]     outages, two servers; all tests, or those whose
    names contain a NAME
    tests/e2e/run steps                 one fault at each step of a creation
    tests/e2e/run upgrade               both of two servers are replaced under load"""
import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "http")]

import interrupted
import outage
import pair
import steps
import upgrade
import watch
from cluster import Cluster, end_in_order, step, tools
from harness import Checks, choose, tests_of

SETS = {"trouble": [*tests_of(outage), *tests_of(pair), *tests_of(watch), *interrupted.TESTS],
        "steps": tests_of(steps), "upgrade": tests_of(upgrade)}


def main():
    tests = choose(SETS[sys.argv[1]], sys.argv[2:])
    if not tests:
        sys.exit("there is no such test")
    end_in_order()
    check = Checks()
    cluster = Cluster(tools())

    try:
        check.run(cluster.bind, *(step(t, cluster) for t in tests))
    finally:
        cluster.close()
    check.finish()


main()
