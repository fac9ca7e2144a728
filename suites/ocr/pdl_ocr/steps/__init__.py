"""The steps of reading: boxes around lines of text. They need NumPy, `pdl.runtime`, and OpenCV when they are called."""
