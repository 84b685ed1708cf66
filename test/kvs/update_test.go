package kvs

import _ "github.com/stategraft/stategraft/test/golden" // takes -update
