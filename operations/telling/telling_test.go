package telling

import "testing"

// Notes are told apart, and the same one is the same.
func TestAction(t *testing.T) {
	a, b, again := Action("Backup", "pod 1"), Action("Backup", "pod 2"), Action("Backup", "pod 1")
	if a == b || a != again || a == Action("Restore", "pod 1") || len(a) > 128 {
		t.Errorf("%s %s %s", a, b, again)
	}
}
