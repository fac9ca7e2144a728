"""Steps of bundles for images. They need NumPy, `pdl.runtime`, and OpenCV when they are called."""
