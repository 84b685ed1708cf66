package v1alpha1

import _ "github.com/stategraft/stategraft/test/golden" // takes -update
