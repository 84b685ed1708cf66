package v1alpha1

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

func backupNamed(name, uid, schedule string, made time.Time) *Backup {
	b := &Backup{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: name, UID: types.UID(uid), CreationTimestamp: metav1.NewTime(made)}}
	if schedule != "" {
		b.Labels = map[string]string{LabelSchedule: schedule}
	}
	return b
}

var made = time.Date(2026, 11, 30, 3, 0, 17, 0, time.UTC)

func TestStorageName(t *testing.T) {
	cet := time.FixedZone("CET", 3600)
	for want, b := range map[string]*Backup{
		"20261130-030017-m68e20f53-before-upgrade":          backupNamed("before-upgrade", "u1", "", made),
		"20261130-030017-sf2957fd2-nightly-20261130-030000": backupNamed("nightly-20261130-030000", "u2", "nightly", made.In(cet)),
	} {
		got := b.StorageName()
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
		parts, ok := ParseStorageName(got)
		if !ok || !parts.Made.Equal(made) || parts.Object != b.Name || parts.Scheduled != (b.Labels[LabelSchedule] != "") || parts.Schedule != b.Labels[LabelSchedule] {
			t.Errorf("%s: %+v %v", got, parts, ok)
		}
		// The object comes back under the name that it had.
		if object := ObjectName("prod-c", got, false); object != b.Name {
			t.Errorf("%s is found as %s", got, object)
		}
		if again := b.DeepCopy().StorageName(); again != got {
			t.Errorf("%s, and then %s", got, again)
		}
	}
}

func TestForeignNames(t *testing.T) {
	for _, name := range []string{
		"", "b1", "20261130", "20261130-030017", "20261130-030017-m2c6b3482", "20261130-030017-m2c6b3482-", "20261130-030017-x2c6b3482-a",
		"20261330-030017-m2c6b3482-a", "20261130-250017-m2c6b3482-a", "20261130-030017-m2C6b3482-a", " 20261130-030017-m2c6b3482-a", "20261130-030017-m2c6b3482--a",
	} {
		if parts, ok := ParseStorageName(name); ok {
			t.Errorf("%q is taken for ours: %+v", name, parts)
		}
	}
}

// Of a Backup that a schedule has been given by hand, the schedule is not known.
func TestScheduleInName(t *testing.T) {
	for object, want := range map[string]string{
		"nightly-20261130-030000": "nightly", "a-b-20261130-030000": "a-b", "nightly-20261330-030000": "", "nightly": "", "20261130-030000": "", "-20261130-030000": "",
	} {
		parts, _ := ParseStorageName(backupNamed(object, "u", "nightly", made).StorageName())
		if parts.Schedule != want {
			t.Errorf("%s is of schedule %q, want %q", object, parts.Schedule, want)
		}
	}
	if parts, _ := ParseStorageName(backupNamed("nightly-20261130-030000", "u", "", made).StorageName()); parts.Schedule != "" {
		t.Errorf("one that was asked for by hand is of schedule %s", parts.Schedule)
	}
}

// No name is the beginning of another, whatever the objects are called: Medusa deletes
// what begins with a name.
func TestNoNameBeginsAnother(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var all []*Backup
	for i, name := range []string{"b", "b1", "b10", "b-20261130-030017-m2c6b3482-b", "nightly", "nightly-20261130-030000", strings.Repeat("a", 62), strings.Repeat("a", 63)} {
		for n := range 40 {
			schedule := []string{"", "nightly"}[random.IntN(2)]
			at := made.Add(time.Duration(random.IntN(3)) * time.Second) // an object that is made again at once
			all = append(all, backupNamed(name, fmt.Sprintf("u%d-%d", i, n), schedule, at))
		}
	}
	for i, a := range all {
		for j, b := range all {
			if i != j && strings.HasPrefix(b.StorageName(), a.StorageName()) {
				t.Fatalf("%s begins %s", a.StorageName(), b.StorageName())
			}
		}
		if n := a.StorageName(); len(n) != len("20261130-030017-m2c6b3482-")+len(a.Name) {
			t.Fatalf("%s: the head is of another width", n)
		}
	}
}

func TestObjectName(t *testing.T) {
	long := strings.Repeat("x", 80)
	for _, c := range []struct {
		name  string
		apart bool
		want  string
	}{
		{"b1", false, "b1"},
		{"b1", true, "b1-bc07032e"},
		{"nightly-20261130", false, "nightly-20261130"},
		{"v1.2", false, "v1.2"},
		{"Before_Upgrade", false, "before-upgrade-1d902dd3"},
		{"2026-11-30T03:00:00+01", false, "2026-11-30t03-00-00-01-cd8a1d7d"},
		{"___", false, "backup-39cd8afd"},
		{long, false, long[:54] + "-98c22b88"},
		{"20261130-030017-m2c6b3482-before-upgrade", false, "before-upgrade"},
		{"20261130-030017-m2c6b3482-before-upgrade", true, "before-upgrade-942fae9f"},
		{"20261130-030017-m2c6b3482-no_name", false, "no-name-09fb5bb4"},
	} {
		got := ObjectName("prod-c", c.name, c.apart)
		if got != c.want {
			t.Errorf("%s, %v: %s, want %s", c.name, c.apart, got, c.want)
		}
		if wrong := validation.IsDNS1123Subdomain(got); len(wrong) > 0 || len(got) > maxBackupName {
			t.Errorf("%s cannot be an object's name: %v", got, wrong)
		}
		if other := ObjectName("test-c", c.name, true); other == ObjectName("prod-c", c.name, true) {
			t.Errorf("%s of two prefixes is one object, %s", c.name, other)
		}
	}
}

func FuzzObjectName(f *testing.F) {
	for _, name := range []string{"b1", "A.", "..", "20261130-030017-m2c6b3482-a", "ä", strings.Repeat("-", 70) + "a"} {
		f.Add("prod-c", name)
	}
	f.Fuzz(func(t *testing.T, prefix, name string) {
		for _, apart := range []bool{false, true} {
			got := ObjectName(prefix, name, apart)
			if wrong := validation.IsDNS1123Subdomain(got); len(wrong) > 0 || len(got) > maxBackupName {
				t.Errorf("%q: %s cannot be an object's name: %v", name, got, wrong)
			}
			if got != ObjectName(prefix, name, apart) {
				t.Errorf("%q: two names", name)
			}
		}
	})
}

func TestParsePeriod(t *testing.T) {
	for text, want := range map[string]time.Duration{"1h": time.Hour, "36h": 36 * time.Hour, "14d": 336 * time.Hour, "8w": 1344 * time.Hour, "9999w": 9999 * 168 * time.Hour} {
		if got, err := ParsePeriod(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "0d", "d", "1", "1m", "1y", "-1d", "1.5d", "1d12h", " 1d", "10000h", "1D"} {
		if got, err := ParsePeriod(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}
