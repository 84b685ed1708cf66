package v1alpha1

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

func TestHeldBackKey(t *testing.T) {
	long := strings.Repeat("n", 253)
	seen := map[string][3]string{}
	for _, c := range []struct{ namespace, kind, name, want string }{
		{"db", "StatefulSet", "cassandra", "db.statefulset.cassandra"},
		{"db", "StatefulSet", "a.b", "db.statefulset.a.b"},
		{"db", "Pod", "x", "db.pod.x"},
		{"db", "StatefulSet", long, ""},
		{"db", "StatefulSet", long[:252] + "o", ""},
		{"db", "My Kind/ä", "x", ""},
		{"db", "My Kind/ö", "x", ""},
		{"db", "", "x", "db..x"},
	} {
		key := HeldBackKey(c.namespace, c.kind, c.name)
		if problems := validation.IsConfigMapKey(key); len(problems) > 0 {
			t.Errorf("%v: key %q: %v", c, key, problems)
		}
		if c.want != "" && key != c.want {
			t.Errorf("%v: key %q, want %q", c, key, c.want)
		}
		if other, taken := seen[key]; taken {
			t.Errorf("%v and %v have the same key", c, other)
		}
		seen[key] = [3]string{c.namespace, c.kind, c.name}
		if key != HeldBackKey(c.namespace, c.kind, c.name) {
			t.Errorf("%v: two keys", c)
		}
	}
}

func TestHeldBackText(t *testing.T) {
	since := time.Date(2026, 11, 30, 2, 0, 0, 0, time.UTC)
	h := HeldBack{Namespace: "db", Kind: "StatefulSet", Name: "cassandra", Cause: CauseOutOfMemory,
		Containers: []HeldContainer{{Name: "stategraft-medusa", Image: "medusa:1", Memory: "1Gi"}},
		Since:      since, Until: since.Add(time.Hour), Message: "…", Trial: &Trial{Created: 2}}
	got, err := ParseHeldBack(h.Encode())
	if err != nil || !reflect.DeepEqual(got, h) {
		t.Errorf("%+v became %+v (%v)", h, got, err)
	}
	for at, want := range map[time.Duration]bool{0: true, time.Hour - 1: true, time.Hour: false, 2 * time.Hour: false} {
		if got.Active(since.Add(at)) != want {
			t.Errorf("after %s: active is %v", at, !want)
		}
	}
}

func TestBrokenHeldBack(t *testing.T) {
	const good = `{"namespace":"db","kind":"StatefulSet","name":"c","cause":"refused","since":"2026-11-30T02:00:00Z","until":"2026-11-30T03:00:00Z","later":1}`
	if _, err := ParseHeldBack(good); err != nil {
		t.Errorf("a member of the future: %v", err)
	}
	for _, c := range []struct{ old, new, says string }{
		{`"namespace":"db"`, `"namespace":""`, "missing"},
		{`"kind":"StatefulSet",`, ``, "missing"},
		{`"name":"c",`, ``, "missing"},
		{`"refused"`, `"boredom"`, "boredom"},
		{`"since":"2026-11-30T02:00:00Z",`, ``, "missing"},
		{`"until":"2026-11-30T03:00:00Z"`, `"until":"soon"`, "no JSON of a held back workload"},
		{good, `[]`, "no JSON of a held back workload"},
		{good, ``, "no JSON of a held back workload"},
	} {
		text := strings.Replace(good, c.old, c.new, 1)
		if _, err := ParseHeldBack(text); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", text, err, c.says)
		}
	}
}

func TestActive(t *testing.T) {
	since := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	entry := HeldBack{Since: since, Until: since.Add(2 * time.Hour)}
	ended := entry
	ended.Ended = since.Add(time.Minute)
	for _, c := range []struct {
		name  string
		entry HeldBack
		at    time.Duration
		want  bool
	}{
		{"at once", entry, 0, true},
		{"before its end", entry, 2*time.Hour - 1, true},
		{"at its end", entry, 2 * time.Hour, false},
		{"by a clock that is slow", entry, -59 * time.Minute, true},
		{"by a clock that was set back", entry, -time.Hour, false},
		{"ended before its time", ended, 2 * time.Minute, false},
	} {
		if got := c.entry.Active(since.Add(c.at)); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	if text := entry.Encode(); strings.Contains(text, "ended") {
		t.Errorf("%s", text)
	}
	if read, err := ParseHeldBack(`{"namespace":"a","kind":"Pod","name":"b","cause":"refused","since":"2026-01-01T00:00:00Z","until":"2026-01-01T02:00:00Z","ended":"2026-01-01T00:01:00Z"}`); err != nil || read.Active(since.Add(2*time.Minute)) {
		t.Errorf("%+v (%v)", read, err)
	}
}
