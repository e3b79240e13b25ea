// SPDX-License-Identifier: Apache-2.0
// What the reader has chosen.
export const choices = {
  hidden: new Set(),  // curves that are not drawn
  baseline: -1,  // the curve that others of its pattern are drawn over; -1: none
  turned: false,  // is the axis of values linear where it was logarithmic, and the other way round?
  curve: 0, size: null,  // of the distribution
  printing: false,
};
