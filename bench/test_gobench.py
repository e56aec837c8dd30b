"""Test the tables made from the output of "go test": python3 -m unittest discover -s bench"""

import unittest

import gobench
import results


class Benchmarks(unittest.TestCase):
    def test_keys_and_metrics(self):
        output = "goos: linux\nBenchmarkSwap/graph=gpt2/link=12GBps/both-2 \t 1\t 5 ns/op\t 2.5 extra%@60\nBenchmarkSwapper/x-2 1 5 ns/op\nPASS\n"
        self.assertEqual(list(gobench.benchmarks(output, "Swap")), [({"graph": "gpt2", "link": "12GBps", "": "both"}, {"ns/op": 5.0, "extra%@60": 2.5})])

    def test_a_column_for_each_number(self):
        output = "\n".join(f"BenchmarkSchedule/graph={g}/nodes={n}-2 1 {ms}e6 ns/op 7 MiB-peak" for g, n, ms in (("a", 1000, 3.94), ("a", 10_000, 2046), ("b", 1000, 0.5), ("b", 10_000, 41)))
        self.assertEqual(gobench.large_orders(output, ""), [
            "| graph | 1,000 | 10,000 |\n", "| --- | ---: | ---: |\n",
            "| a | 3.9 ms, 7 MiB | 2,046 ms, 7 MiB |\n", "| b | 0.50 ms, 7 MiB | 41 ms, 7 MiB |\n"])

    def test_orders_of_one_set(self):
        output = "BenchmarkOrder/set=zoo/graph=x-b1-2 3 2000 ns/op 9 B-program 8 B-bound 8 B-peak 3 nodes 193 allocs/op\nBenchmarkOrder/set=traced/graph=y-2 3 1 ns/op\n"
        self.assertEqual(gobench.orders("zoo", output, "")[2:], ["| x-b1 | 3 | 9 | 8 | 8 | proven | 0.00 | 193 |\n"])

    def test_no_output_no_table(self):
        for table in results.TABLES:
            if table.lines and not table.slow:
                self.assertLess(len(table.lines("", table.name)), 3, table.name)


class Printed(unittest.TestCase):
    output = "    a_test.go:7: <!-- table: p/one -->\n    a_test.go:8: | a | 1 |\n<!-- table: p/two -->\n\n| b | 2 |\n"

    def test_tables_by_name(self):
        self.assertEqual(results.printed(self.output, "p/one"), ["| a | 1 |\n"])
        self.assertEqual(results.printed(self.output, "p/two"), ["| b | 2 |\n"])

    def test_the_only_table(self):
        self.assertEqual(results.printed("said\n| b | 2 |\n", "p/two"), ["| b | 2 |\n"])

    def test_the_line_above_is_found_again(self):
        for table in results.TABLES:
            self.assertEqual(results.LINE.search(results.source(table) + "\n\n| a |\n")["name"], table.name)


if __name__ == "__main__":
    unittest.main()
