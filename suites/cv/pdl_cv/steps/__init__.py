"""Steps of bundles for images: the objects
found on one. They need NumPy, `pdl.runtime`, and OpenCV when they are called."""
