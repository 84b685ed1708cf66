package restore

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/medusa"
	"github.com/stategraft/stategraft/api/node"
)

func TestFreshVolume(t *testing.T) {
	r := newRig(t)
	t.Setenv("RESTORE_MAPPING", `{"in_place": false}`)
	t.Setenv("MEDUSA_CQL_K8S_SECRETS_PATH", "/nowhere")
	t.Setenv("POD_IP", "cassandra-0")
	if message := r.mustRun(); message != "restored backup b1 of node cassandra-0: 3 tables, 29 B" {
		t.Errorf("message %q", message)
	}
	r.restored()
	want := "BACKUP_NAME=b1\nMEDUSA_TMP_DIR=" + r.Temp + "\nPOD_IP=cassandra-0\nRESTORE_KEY=b1\n"
	if got := r.get("env"); got != want {
		t.Errorf("environment\n%swant\n%s", got, want)
	}
	if m := r.marker(); m.ID != "b1" || m.Source != "cassandra-0" {
		t.Errorf("marker %+v", m)
	}
}

func TestOnce(t *testing.T) {
	r := newRig(t)
	r.mustRun()
	r.set("vol/data/shop/orders-11/nb-2-big-Data.db", "written since")
	calls := r.get("calls")
	r.Image = medusa.Image{} // not needed any more
	if message := r.mustRun(); !strings.Contains(message, "already: nothing to do") {
		t.Errorf("message %q", message)
	}
	r.PodName = "cassandra-0"
	r.Source = "cassandra-0" // says nothing new
	if message := r.mustRun(); !strings.Contains(message, "already: nothing to do") {
		t.Errorf("message %q", message)
	}
	if r.get("calls") != calls || r.data()["shop/orders-11/nb-2-big-Data.db"] == "" {
		t.Error("restored again: what was written since is lost")
	}
}

func TestAnotherRequest(t *testing.T) {
	r := newRig(t)
	r.mustRun()
	r.Backup, r.Source = "b2", "cassandra-1"
	r.report(func(a *Report) { a.FQDN = "cassandra-1" })
	r.mustRun()
	if !strings.Contains(r.get("env"), "POD_IP=cassandra-1\nRESTORE_KEY=b2@cassandra-1\n") {
		t.Errorf("environment\n%s", r.get("env"))
	}
	if m := r.marker(); m.ID != "b2@cassandra-1" || m.Source != "cassandra-1" {
		t.Errorf("marker %+v", m)
	}
}

// TestRefusals are the backups that Medusa passes over with status 0, and more.
// Nothing on the volume may change.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Report)
		want   string
		cause  node.Cause
	}{
		{"unknown", func(a *Report) { a.Nodes = nil }, "there is no backup b1 in the storage; the newest are b1, b0", node.CauseNoBackup},
		{"no backup at all", func(a *Report) { a.Nodes, a.Backups = nil, nil }, "check bucket_name and prefix", node.CauseNoBackup},
		{"incomplete", func(a *Report) { a.Complete = false }, "not complete", node.CauseUnfinished},
		{"other node", func(a *Report) { a.FQDN = "cassandra-2" }, "nothing of node cassandra-2, only of cassandra-0, cassandra-1", node.CauseNoBackup},
		{"similar node", func(a *Report) { a.FQDN = "cassandra" }, "nothing of node cassandra,", node.CauseNoBackup},
		{"token map", func(a *Report) { a.TokenMap = []string{"10.0.0.1"} }, "only 10.0.0.1", node.CauseUnfinished},
		{"empty", func(a *Report) { a.Tables = []Table{{Keyspace: "shop", Name: "empty-22"}} }, "is empty", node.CauseUnfinished},
		{"no manifest", func(a *Report) { a.Tables = nil }, "is empty", node.CauseUnfinished},
		{"too large", func(a *Report) { a.Tables[0].Files = map[string]int64{"x": 1 << 60} }, "too little room", node.CauseNone},
		{"storage", func(a *Report) { a.Error = "ClientError: the key s3cret-key is wrong" }, "ClientError: the key *** is wrong", node.CauseNone},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.mustRun() // an earlier restore, of b1
			r.Backup = "b1"
			r.Source = "other" // now another request
			r.report(c.change)
			r.set("vol/data/shop/orders-11/nb-2-big-Data.db", "written since")
			before := r.marker()
			_, err := r.run()
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("error %v, want %q", err, c.want)
			}
			if got := CauseOf(err); got != c.cause {
				t.Errorf("cause %q, want %q", got, c.cause)
			}
			if !reflect.DeepEqual(r.marker(), before) || r.data()["shop/orders-11/nb-2-big-Data.db"] == "" || strings.Count(r.get("calls"), "restore") != 1 {
				t.Error("the volume has changed")
			}
		})
	}
}

func TestWhatCannotStart(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*rig)
		want   string
	}{
		{"no name", func(r *rig) { r.Backup = "" }, "no backup is named"},
		{"no volume", func(r *rig) { r.DataMount = r.path("nowhere") }, "the data volume is not at"},
		{"no Medusa", func(r *rig) { r.Image = medusa.Image{} }, "holds no Medusa"},
		{"no configuration", func(r *rig) { _ = os.Remove(r.path("medusa/medusa.ini")) }, "not there yet"},
		{"incomplete configuration", func(r *rig) { r.set("medusa/medusa.ini", "[storage]\n") }, "[storage] storage_provider is missing"},
		{"broken Medusa", func(r *rig) { r.set("mode", "noanswer") }, "ImportError: No module named medusa"},
		{"slow storage", func(r *rig) { r.set("hold", "precheck"); r.PrecheckLimit = 100 * time.Millisecond }, "no answer from the storage within 100ms"},
		{"torn marker", func(r *rig) { r.set("vol/.stategraft/restore.json", "{") }, "remove " + "{vol}"},
		{"data directory is a file", func(r *rig) { r.set("vol/data", "") }, "cannot write to the data directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			c.change(r)
			_, err := r.run()
			want := strings.ReplaceAll(c.want, "{vol}", r.path("vol"))
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Fatalf("error %v, want %q", err, want)
			}
			if strings.Contains(r.get("calls"), "restore") {
				t.Error("Medusa was run")
			}
		})
	}
}

// TestMedusaLies covers the runs after which a database must not start.
func TestMedusaLies(t *testing.T) {
	for _, c := range []struct {
		mode, want, outcome string
		cause               node.Cause
	}{
		{"skip", "Medusa ended without it", "", node.CauseNone},
		{"broken", "botocore.exceptions.ClientError: connection lost, key ***", "", node.CauseNone},
		{"lost", "An error occurred (404) when calling the HeadObject operation: Not Found", "", node.CauseLost},
		{"half", "was not restored: ", Applying, node.CauseLost},
		{"torn", "has 8 bytes, not 6", Applying, node.CauseLost},
		{"extra", "nb-9-big-Data.db is not part of the backup", Applying, node.CauseNone},
	} {
		t.Run(c.mode, func(t *testing.T) {
			r := newRig(t)
			r.set("mode", c.mode)
			_, err := r.run()
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v, want %q", err, c.want)
			}
			if got := CauseOf(err); got != c.cause {
				t.Errorf("cause %q, want %q", got, c.cause)
			}
			if got := r.marker().Outcome; got != c.outcome {
				t.Errorf("outcome %q", got)
			}
			if strings.Contains(r.log.String(), "s3cret-key") {
				t.Error("a secret is in the log")
			}
			r.set("mode", "")
			r.mustRun()
			r.restored()
		})
	}
}

// TestFailedDownloadKeepsTheMarker: b1 was restored, b2 could not be fetched
// and nothing has changed, so asking for b1 again must not restore it again.
func TestFailedDownloadKeepsTheMarker(t *testing.T) {
	r := newRig(t)
	r.mustRun()
	r.Backup = "b2"
	r.set("mode", "broken")
	if _, err := r.run(); err == nil {
		t.Fatal("no error")
	}
	r.set("vol/data/shop/orders-11/nb-2-big-Data.db", "written since")
	r.set("mode", "")
	r.Backup = "b1"
	if message := r.mustRun(); !strings.Contains(message, "already: nothing to do") {
		t.Errorf("message %q", message)
	}
}

func TestStaleFilesGo(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"saved_caches/KeyCache-f.db", "hints/0a-1-2.hints", "hints/0a-1-2.crc32", "hints/readme", "commitlog/CommitLog-7-1.log", "medusa-restore-old/x", "mine/y"} {
		r.set("vol/"+name, "x")
	}
	r.mustRun()
	r.restored()
	for name, want := range map[string]bool{"saved_caches/KeyCache-f.db": false, "hints/0a-1-2.hints": false, "hints/0a-1-2.crc32": false, "hints/readme": true, "commitlog/CommitLog-7-1.log": false, "mine/y": true} {
		if got := r.get("vol/"+name) != ""; got != want {
			t.Errorf("%s is there: %v", name, got)
		}
	}
}

// TestUnknownLayout is a volume that only the user could name: where the data
// are is seen here.
func TestUnknownLayout(t *testing.T) {
	for found, want := range map[string]string{"": "", "system": "vol", "data/system": "vol/data"} {
		r := newRig(t)
		r.DataDirectory = ""
		if found != "" {
			r.set("vol/"+found+"/local-77/x", "")
		}
		text := r.yaml()
		if want == "" {
			if text != "" {
				t.Errorf("a fresh volume: %s", text)
			}
			continue
		}
		if !strings.Contains(text, "- "+r.path(want)+"\n") {
			t.Errorf("%s: %s", found, text)
		}
		r.set("medusa/medusa.ini", "[storage]\nstorage_provider = s3\nbucket_name = b\n[cassandra]\nconfig_file = "+r.Places.Yaml()+"\n")
		ini, err := medusa.Configure(r.Places, r.Private, text)
		if err != nil {
			t.Fatal(err)
		}
		if written, _ := os.ReadFile(ini); !strings.Contains(string(written), "config_file = "+r.path("private/cassandra.yaml")) || !strings.Contains(string(written), "key_file = "+r.Places.Credentials()) {
			t.Errorf("%s", written)
		}
	}
}

func TestBecause(t *testing.T) {
	for _, c := range []struct {
		lines []string
		want  string
	}{
		{nil, ""},
		{[]string{"[2026-01-01 00:00:00,000] ERROR: No such backup"}, ": No such backup"},
		{[]string{"botocore.exceptions.ClientError: denied", "", "tenacity.RetryError: RetryError[<Future>]"}, ": botocore.exceptions.ClientError: denied"},
		{[]string{"tenacity.RetryError: RetryError[<Future>]"}, ": tenacity.RetryError: RetryError[<Future>]"},
		{[]string{"RuntimeError: Not enough space available", "[x] INFO: y"}, ": RuntimeError: Not enough space available"},
	} {
		if got := because(c.lines); got != c.want {
			t.Errorf("%q: %q", c.lines, got)
		}
	}
}

func TestHuman(t *testing.T) {
	for bytes, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 5 << 30: "5.0 GiB", 3 << 50: "3072.0 TiB"} {
		if got := human(bytes); got != want {
			t.Errorf("%d: %s, want %s", bytes, got, want)
		}
	}
}

// TestMedusaFailed: Medusa says of every download that fails that the object does not
// exist. Whether that is so stands in what it logged before.
func TestMedusaFailed(t *testing.T) {
	const missing = ": medusa.storage.abstract_storage.ObjectDoesNotExistError: Object a does not exist"
	failed := errors.New("failed")
	for _, c := range []struct {
		said, logged string
		want         node.Cause
	}{
		{missing, "", node.CauseLost},
		{missing, "Error downloading file from s3://b/a: An error occurred (404) when calling the HeadObject operation: Not Found", node.CauseLost},
		{missing, "Error downloading file from s3://b/a: An error occurred (NoSuchKey) when calling the GetObject operation: x", node.CauseLost},
		{missing, "Error downloading file from gs://b/a: 404, message='Not Found', url=x", node.CauseLost},
		{missing, "Error downloading file from s3://b/404: [Errno 28] No space left on device", node.CauseNone},
		{missing, "Error downloading file from s3://b/a: An error occurred (403) when calling the HeadObject operation: Forbidden", node.CauseNone},
		{": RuntimeError: x", "", node.CauseNone},
		{"", "", node.CauseNone},
	} {
		err := medusaFailed(c.said, c.logged, failed)
		if got := CauseOf(fmt.Errorf("restore: %w", err)); got != c.want || !errors.Is(err, failed) {
			t.Errorf("%q, %q: %q, want %q", c.said, c.logged, got, c.want)
		}
	}
}

// TestDownloading: a full volume is not told as a missing object.
func TestDownloading(t *testing.T) {
	const missing = ": medusa.storage.abstract_storage.ObjectDoesNotExistError: Object a does not exist"
	const full = "Error downloading file from s3://b/a: [Errno 28] No space left on device"
	if got := downloading(missing, full); got != ": "+full {
		t.Error(got)
	}
	for _, reason := range []string{"", ": RuntimeError: x"} {
		if got := downloading(reason, full); got != reason {
			t.Error(got)
		}
	}
}
