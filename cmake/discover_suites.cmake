# Run after a unit-test program is built: writes TESTS_FILE, which ctest includes, with a test for each suite of PROGRAM.
# Suites, not single tests: a process that loads libtorch takes half a second before its first line.
execute_process(COMMAND ${PROGRAM} --gtest_list_tests OUTPUT_VARIABLE listed COMMAND_ERROR_IS_FATAL ANY TIMEOUT 60)
string(REGEX MATCHALL "(^|\n)[A-Za-z0-9_/]+\\." suites "${listed}")
set(script "")
foreach(suite IN LISTS suites)
  string(REGEX REPLACE "[\n.]" "" suite "${suite}")
  string(APPEND script "add_test([=[${NAME}.${suite}]=] [=[${PROGRAM}]=] [=[--gtest_filter=${suite}.*]=])\n"
    "set_tests_properties([=[${NAME}.${suite}]=] PROPERTIES TIMEOUT 300 ENVIRONMENT OMP_NUM_THREADS=1)\n")
endforeach()
file(WRITE ${TESTS_FILE} "${script}")
