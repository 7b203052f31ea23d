"""The CXL language: text to syntax tree to typed tree to values.

Here: types, values, typed trees and failures, which all parts of the language share.
Not here: nodes and files; the caller of a program supplies its context.
"""
