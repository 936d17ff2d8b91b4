"""What `nearcast bench` measures."""
