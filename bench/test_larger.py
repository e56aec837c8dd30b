"""Test the arithmetic of larger.py: python3 -m unittest discover -s bench"""

import unittest

import larger


def kind(operator, algorithm=""):
    return larger.KINDS[larger.kind_of(operator, algorithm)][0]


class Kinds(unittest.TestCase):
    def test_algorithms(self):
        self.assertEqual(kind("Conv", "NCHW16c direct 3x3, bias, relu"), "3 x 3 convolution")
        self.assertEqual(kind("Conv", "implicit GEMM 1x1, bias"), "1 x 1 convolution")
        self.assertEqual(kind("Conv", "implicit GEMM 3x3x3"), "3 x 3 convolution")
        self.assertEqual(kind("Conv", "implicit GEMM 7x7"), "other convolution")
        self.assertEqual(kind("Conv", "NCHW16c depthwise 3x3, bias"), "depthwise convolution")
        self.assertEqual(kind("ConvTranspose", "depthwise 3x3"), "gradient of an image, depthwise")
        self.assertEqual(kind("onnxmem::ConvWeightGrad"), "gradient of a convolution's weights")
        self.assertEqual(kind("MatMul", "GEMM, prepacked"), "product of some rows")
        self.assertEqual(kind("Sub", "2 nodes at once: Mul, Sub"), "update of a weight")
        self.assertEqual(kind("ReduceSum", "gradient of a normalization"), "gradient of a normalization")
        self.assertEqual(kind("Erf"), "function of elements")


class Times(unittest.TestCase):
    def test_fraction(self):
        self.assertEqual(larger.fraction(100, 50), 1)
        self.assertEqual(larger.fraction(100, 60), 0.8)
        self.assertEqual(larger.fraction(100, 120), 0)
        self.assertEqual(larger.fraction(100, 45), 1)

    def test_amdahl(self):
        self.assertAlmostEqual(larger.node_time(1000, 600, 0.8, 0.6, 2, False), 600)
        self.assertAlmostEqual(larger.node_time(1000, 600, 0.8, 0.6, 4, False), 400 + 2 * larger.BARRIER)

    def test_what_does_not_gain(self):
        self.assertEqual(larger.node_time(1000, 1200, 0, 1.2, 64, False), 1200)
        self.assertEqual(larger.node_time(larger.SMALL / 2, 3, 1, 0.5, 64, False), 3)

    def test_memory(self):
        self.assertEqual(larger.rate(1), larger.CORE)
        self.assertEqual(larger.rate(8), larger.CLUSTER)
        self.assertEqual(larger.rate(9), 2 * larger.CLUSTER)
        self.assertEqual(larger.rate(1024), larger.SOCKET)
        gain = larger.CLUSTER / larger.CORE
        self.assertAlmostEqual(larger.node_time(1000, 500, 1, 0.5, 8, True), 1000 / gain + 6 * larger.BARRIER)

    def test_step_in_the_caches(self):
        streams = larger.kind_of("Relu", "")
        nodes = [(streams, 1000.0, 500.0)]
        inside, outside = (larger.step_time(nodes, {streams: 1.0}, {streams: 0.5}, 8, held) for held in (larger.CACHE, larger.CACHE + 1))
        self.assertAlmostEqual(inside, 125 + 6 * larger.BARRIER)
        self.assertGreater(outside, inside)


if __name__ == "__main__":
    unittest.main()
