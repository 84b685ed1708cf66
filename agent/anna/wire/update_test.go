package wire_test

import _ "github.com/stategraft/stategraft/test/golden" // takes -update
