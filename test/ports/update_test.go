package ports

import _ "github.com/stategraft/stategraft/test/golden" // takes -update
