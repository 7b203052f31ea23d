"""Formats whose columns have types in their files, such as Parquet and Avro.

Here: conversion between Arrow's types and ours, to declared types and to dynamic values; skipping ranges of files.
Not here: decoding and encoding of each format.
"""
