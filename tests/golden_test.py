#!/usr/bin/env python3
"""golden_test.py - THEN and NEXT of golden.py: what holds, and what does not."""
import sys

import golden

TEXT = "%7 = wait $A\n%12 = load $A\nuse %12, %7\nuse %1\n"
# the lines, and a part of what is wrong; None: nothing is
CASES = [
    ([("THEN", "wait"), ("THEN", "load"), ("NEXT", "use")], None),
    ([("THEN", "[[a:%\\d+]] = wait"), ("NEXT", "[[b:%\\d+]] = load  $A"), ("THEN", "use [[b]], [[a]]")], None),
    ([("THEN", "[[a:%\\d+]] = wait"), ("NEXT", "[[b:%\\d+]] = load"), ("THEN", "use [[a]], [[b]]")], "no line has"),
    ([("THEN", "load"), ("THEN", "wait")], "no line has"),  # the other order
    ([("THEN", "wait"), ("NEXT", "use")], "the next line does not have"),
    ([("THEN", "load"), ("THEN", "load")], "no line has"),  # there is one
    ([("THEN", "use [[a]]")], "nothing is called a"),
    ([("THEN", "[[b:%1]]2 = load"), ("THEN", "use [[b]],")], "no line has"),  # %1 is not %12
    ([("THEN", "{{%[0-9]}} = wait"), ("THEN", "use {{%12, %\\d}}")], None),
    ([("THEN", "{{[0-9]}} = load")], None),  # a part of a line
    ([("NEXT", "load")], "the next line does not have"),
]
failed = 0
for checks, wrong in CASES:
    said = golden.in_order(checks, TEXT)
    if bool(said) != bool(wrong) or (wrong and wrong not in said[0]):
        failed += 1
        print(f"{checks}: {said}, expected {wrong}")
print(f"{len(CASES)} cases, {failed} failed")
sys.exit(1 if failed else 0)
