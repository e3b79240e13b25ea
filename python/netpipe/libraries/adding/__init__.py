# SPDX-License-Identifier: Apache-2.0
"""How a library is found, and how the module LAYER@NAME is built for it. Nothing here knows a family by name.

layers     the layers that are built once per library, and the files that they are built from
compiler   which library a compiler is for, and how it compiles
launcher   which launcher belongs to it
archives   archives of a library that are made fit for a module
add        adds a library
added      the libraries that were added, and whether they still work
discover   finds libraries that can be added
"""
