FLOAT8E4M3FN saturate 0 [448, 464, 465, 479, 480, 495, 496, inf] reference [448.0, 448.0, nan, nan, nan, nan, nan, nan] onnxruntime [448.0, 448.0, nan, nan, 448.0, 448.0, nan, nan]
FLOAT8E5M2 saturate 0 [57344, 61439, 61440, 61441, 1000000000.0, inf] reference [57344.0, 57344.0, inf, inf, inf, inf] onnxruntime [57344.0, 57344.0, nan, nan, inf, inf]
Traceback (most recent call last):
  File "<stdin>", line 26, in <module>
AssertionError
