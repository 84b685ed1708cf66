package verify

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stategraft/stategraft/api/node"
)

// TestManyDamaged: where so many cannot be read, it is told before the time is up.
func TestManyDamaged(t *testing.T) {
	v := newVolume(t, "system.local")
	for i := range 3 * mostUnread {
		v.write(v.add("shop.orders", fmt.Sprintf("nb-%d-big", i))+".fails", "java.io.EOFException\n", 0o644)
	}
	v.tool(officialTool)
	t.Setenv("FAKE", "new")
	v.config.Batch = 1
	all, err := find(v.config.DataDirectory)
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(all) // the sound one first
	result := node.Verified{}
	n := &counter{Config: v.config, v: &result, scan: true}
	tools, err := v.config.tools()
	if err != nil {
		t.Fatal(err)
	}
	n.tool = tools[0]
	if err := n.rest(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	n.judge(all)
	if len(result.Problems) != mostUnread || len(result.Notes) != 1 || result.Notes[0] != "100 SSTables more were not counted, as so many fail" {
		t.Errorf("%d problems, %q", len(result.Problems), result.Notes)
	}
}

func TestWhose(t *testing.T) {
	for why, want := range map[string]bool{
		"EOFException": false, "CorruptSSTableException in nb-1-big-Index.db": false, "IOError": false, "IOException": false,
		"OutOfMemoryError": true, "IOException: No space left on device": true, "exit status 1": true, "killed by signal 9 (killed)": true,
		"NoClassDefFoundError": true, saysNothing: true,
	} {
		if got := tools(why); got != want {
			t.Errorf("%s: the tool's %v, want %v", why, got, want)
		}
	}
}

func TestFormat(t *testing.T) {
	for name, want := range map[string]string{"nb-1-big": "nb-big", "da-3gx_0abc-bti": "da-bti", "shop-orders-ka-7": "ka"} {
		if got := (&files{name: name}).format(); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
