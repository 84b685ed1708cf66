package compare

import (
	"encoding/json"
	"slices"
	"testing"
)

func TestLost(t *testing.T) {
	for _, c := range []struct {
		name, before, after string
		lost                []string
	}{
		{"same", `{"a":[1,{"b":null}]}`, `{"a":[1,{"b":null}]}`, nil},
		{"more members", `{"a":1}`, `{"a":1,"b":2}`, nil},
		{"more at the end", `{"a":[1]}`, `{"a":[1,2]}`, nil},
		{"more before", `{"a":[1]}`, `{"a":[2,1]}`, []string{".a[0]"}},
		{"member gone", `{"a":{"b":1,"c":2}}`, `{"a":{"b":1}}`, []string{".a.c"}},
		{"value changed", `{"a":{"b":1}}`, `{"a":{"b":"1"}}`, []string{".a.b"}},
		{"kind changed", `{"a":{"b":1}}`, `{"a":[1]}`, []string{".a"}},
		{"named, more between", `{"l":[{"name":"x","v":1},{"name":"y"}]}`, `{"l":[{"name":"x","v":1},{"name":"new"},{"name":"y"}]}`, nil},
		{"named, gone", `{"l":[{"name":"x"},{"name":"y"}]}`, `{"l":[{"name":"y"}]}`, []string{".l[x]"}},
		{"named, changed", `{"l":[{"name":"x","v":1}]}`, `{"l":[{"name":"x","v":2}]}`, []string{".l[x].v"}},
		{"named, out of order", `{"l":[{"name":"x"},{"name":"y"}]}`, `{"l":[{"name":"y"},{"name":"x"}]}`, []string{".l[y] (out of order)"}},
		{"name twice", `{"l":[{"name":"x","v":1},{"name":"x","v":2}]}`, `{"l":[{"name":"x","v":1},{"name":"x","v":3}]}`, []string{".l[1].v"}},
		{"list gone", `{"l":[1,2]}`, `{"l":[]}`, []string{".l[0]", ".l[1]"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var before, after any
			if err := json.Unmarshal([]byte(c.before), &before); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(c.after), &after); err != nil {
				t.Fatal(err)
			}
			if got := Lost(before, after); !slices.Equal(got, c.lost) {
				t.Errorf("lost %q, want %q", got, c.lost)
			}
		})
	}
}

func TestGained(t *testing.T) {
	before, err := JSON(map[string]any{"a": 1})
	if err != nil {
		t.Fatal(err)
	}
	after := map[string]any{"a": 1.0, "b": []any{"x"}}
	if got := Gained(before, after); !slices.Equal(got, []string{".b"}) {
		t.Errorf("gained %q", got)
	}
}
