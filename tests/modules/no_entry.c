/* SPDX-License-Identifier: Apache-2.0
 *
 * A shared library like any other: refused, because it does not export netpipe_module().
 */
int no_entry_answer(void) { return 42; }
