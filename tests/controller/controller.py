"""The controller with a real API server, with TLS, RBAC and the shipped rights.

    tests/controller/run [WORD...]"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from scene import Controller, Scene, Stand  # first: it sets the path

import bad
import ends
import hand
import late
import posts
import queues
from cluster import end_in_order, step
from count import Count
from harness import BINARY, Checks, choose, tests_of
from kueue import replay

WHOLE = os.environ.get("TEST_WHOLE") == "1"


def main():
    if not os.access(BINARY, os.X_OK):
        sys.exit(f"{BINARY} is not there: make")
    words = sys.argv[1:]
    tests = choose([*ends.SHORT, *ends.LONG, *tests_of(posts), *tests_of(bad), *tests_of(late), *tests_of(hand), *tests_of(replay), *tests_of(queues), ends.LAST], words) \
        if words or WHOLE else [
            *ends.SHORT, posts.test_pods_are_the_template_and_what_is_added, late.test_one_late_or_lost_request_changes_no_end,
            ends.LAST]
    if not tests:
        sys.exit("there is no such test")
    end_in_order()
    check = Checks()
    scene = Scene()
    try:
        with Stand(scene) as scene.stand, Count(scene) as scene.count, Controller(scene) as one, \
                Controller(scene) as two:
            scene.controllers = [one, two]
            check.run(*(step(t, scene) for t in tests))
    finally:
        scene.close()
    check.finish()


main()
