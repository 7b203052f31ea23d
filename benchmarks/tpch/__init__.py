"""Eight queries of TPC-H as pipelines, and as SQL for other engines."""
