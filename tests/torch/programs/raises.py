"""Ends with an exception that torch's record keeps."""

from torch.distributed.elastic.multiprocessing.errors import record


@record
def main():
    raise ValueError("boom")


if __name__ == "__main__":
    main()
