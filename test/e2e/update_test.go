package e2e

import _ "github.com/stategraft/stategraft/test/golden" // takes -update
