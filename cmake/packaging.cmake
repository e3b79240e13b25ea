# SPDX-License-Identifier: Apache-2.0
# What a wheel brings besides the package: the man page and the completions, where man and the shells look for them below
# the prefix of the environment. Plain CMake installs no command that they would be about.
if(NOT DEFINED SKBUILD_DATA_DIR)
  return()
endif()
set(netpipe_share "${SKBUILD_DATA_DIR}/share")
set(netpipe_shell "${PROJECT_SOURCE_DIR}/packaging/shell")
install(FILES "${netpipe_shell}/netpipe.1" DESTINATION "${netpipe_share}/man/man1")
install(FILES "${netpipe_shell}/netpipe.bash" DESTINATION "${netpipe_share}/bash-completion/completions" RENAME netpipe)
install(FILES "${netpipe_shell}/_netpipe" DESTINATION "${netpipe_share}/zsh/site-functions")
install(FILES "${netpipe_shell}/netpipe.fish" DESTINATION "${netpipe_share}/fish/vendor_completions.d")
