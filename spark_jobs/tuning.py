"""The sizes at which the engine divides its work: one value, handed to the driver and to tasks.

None of them changes an output: whatever the sizes are, the same files are written. So tests run with sizes that are so
small that a few records cross every border, by `RunOptions.tuning`. Users do not set them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """Sizes of the portions in which runs work, and thresholds between ways to do so.

    Args:
        group_rows: records that an aggregate gathers before it groups them. Grouping some thousand at a time costs as
            much as grouping a million.
        merge_rows: groups that an aggregate holds for one input path before it merges the states of equal keys.
        write_rows: records that a shuffle writer gathers before it sends them.
        probe_rows: driver records that a combine gathers before it looks them up.
        pair_rows: candidate pairs of a combine that are held at once.
        many_candidates: a driver record with more candidates is tried with the first of them before all are, where
            ranges may fail.
        crowded_rows: records of a partition are spread over all partitions only if it gets so many at once.
        skewed_share: of a task's memory, one part in so many is for the build records of all partitions in which it
            looks records up at the same time.
        strip_rows: sorted rows that window functions work on at once.
        frame_pairs: pairs of a record and a row of its frame that are looked at at once, where each record compares
            with values of its own.
        dlq_block_rows: dead letters of a block in the files of tasks; blocks are read and merged one at a time.
        dlq_slice_rows: failing records whose dead letters are made at once.
        dlq_tables: tables of dead letters that a task holds before it sorts and writes them.
        driver_dlq_rows: up to so many dead letters are written by the driver alone, because a job costs more.
        dlq_tasks: tasks that share a larger number of dead letters.
        driver_output_bytes: up to so many bytes of an output are merged, converted or compressed by the driver alone.
        pack_task_bytes: bytes of outputs that a task compresses.
        merge_range_bytes: a task that merges sorted parts gets at least so many bytes.
        key_buckets: buckets that the keys of a merge into a table are divided into, at most.
        kept_bytes: bytes of rows that a merge replaces and keeps columns of, which a task holds before it writes them.
        driver_ok_records: up to so many written records are counted by the driver alone.
        ok_tasks: tasks that count a larger number of written records.
        inline_bits_bytes: a bitmap of written rows of up to so many bytes is in the report of its task, not in a file.
        bits_chunks: chunks of such a bitmap, of 8 KiB each, that are written and read at once.
        pack_splits: splits of small files that a task reads, at most.
        pack_bytes: bytes of small files that a task reads, because starting a task costs as much.
        inline_loads: up to so many loads travel with their job; more are in a file.
        load_block: loads of a block of such a file; a task reads one block.
        fact_rows: facts about correlation groups that a task holds before it writes them.
        fact_bytes: the bytes of these.
        driver_name_bytes: up to so many bytes of records are searched for undeclared columns by the driver alone.
        name_pack_bytes: bytes of records that a task searches for undeclared columns.
        name_sample_bytes: the first records of files are a sample only if files have more bytes than this on average.
        name_sample_records: records of each file that are a sample.
        driver_heads: up to so many beginnings of objects are fetched by the driver alone.
        head_batch: beginnings of objects that the driver holds at once, where tasks fetch them.
        head_batch_bytes: the bytes of these.
        head_pack: beginnings of objects that a task fetches.
        json_portion_bytes: bytes of a JSON file whose records are read at once.
        json_quick_lines: a part of a refused portion of JSON is read one by one if it has up to so many lines. A whole
            portion is always tried in columns first.
        json_names_bytes: up to so many bytes of JSON are searched for undeclared names line by line.
        json_uniform_objects: so many JSON objects for each member are read as arrays of bytes, if they are written
            alike; with fewer, Arrow's reader is as fast.
        xml_first_bytes: bytes of an XML file that are read at once until the layout of its records is known.
    """

    group_rows: int = 1_048_576
    merge_rows: int = 1_048_576
    write_rows: int = 262_144
    probe_rows: int = 524_288
    pair_rows: int = 1_048_576
    many_candidates: int = 64
    crowded_rows: int = 4_096
    skewed_share: int = 2
    strip_rows: int = 131_072
    frame_pairs: int = 131_072
    dlq_block_rows: int = 16_384
    dlq_slice_rows: int = 65_536
    dlq_tables: int = 1024
    driver_dlq_rows: int = 10_000
    dlq_tasks: int = 64
    driver_output_bytes: int = 4 << 20
    pack_task_bytes: int = 64 << 20
    merge_range_bytes: int = 64 << 10
    key_buckets: int = 256
    kept_bytes: int = 8 << 20
    driver_ok_records: int = 2_000_000
    ok_tasks: int = 64
    inline_bits_bytes: int = 512
    bits_chunks: int = 1024
    pack_splits: int = 500
    pack_bytes: int = 4 << 20
    inline_loads: int = 4096
    load_block: int = 256
    fact_rows: int = 1 << 16
    fact_bytes: int = 8 << 20
    driver_name_bytes: int = 32 << 20
    name_pack_bytes: int = 16 << 20
    name_sample_bytes: int = 4 << 20
    name_sample_records: int = 512
    driver_heads: int = 2_000
    head_batch: int = 8_192
    head_batch_bytes: int = 64 << 20
    head_pack: int = 256
    json_portion_bytes: int = 2 << 20
    json_quick_lines: int = 8
    json_names_bytes: int = 16 << 10
    json_uniform_objects: int = 32
    xml_first_bytes: int = 64 << 10


#: The sizes that runs have.
DEFAULT = Tuning()
