"""Event files of TensorBoard, as many trainers write them."""
