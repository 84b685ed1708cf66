package restore

import (
	"maps"
	"os"
	"strings"
	"testing"
)

// foreign is a backup of another cluster's node.
var foreign = map[string]string{
	"system/local-77/nb-1-big-Data.db":            "the source's tokens",
	"system/peers-78/nb-1-big-Data.db":            "the source's peers",
	"system/peers_v2-79/nb-1-big-Data.db":         "the source's peers",
	"system/available_ranges_v2-7a/nb-1-big.db":   "the source's bootstrap",
	"system/IndexInfo-7b/nb-1-big-Data.db":        "indexes that are built",
	"system_schema/tables-7c/nb-1-big-Data.db":    "the schema",
	"system_auth/roles-7d/nb-1-big-Data.db":       "the source's logins",
	"shop/peers_of_ours-44/nb-1-big-Data.db":      "a user's table",
	"shop/orders-11/nb-1-big-Data.db":             "orders",
	"system_distributed/repair-7e/nb-1-big-D.db":  "history",
	"other/available_ranges-45/nb-1-big-Data.db":  "a user's table, too",
	"other/local-46/.by_name/nb-1-big-Index-D.db": "a user's index",
}

// fresh is a node that has joined a ring of its own.
var fresh = map[string]string{
	"system/local-77/nb-1-big-Data.db":          "fresh tokens",
	"system/peers_v2-79/nb-1-big-Data.db":       "fresh peers",
	"system/of_this_version-90/nb-1-big.db":     "what the source did not know",
	"system_schema/of_this-91/nb-1-big-Data.db": "what the source did not know",
	"system_auth/roles-7d/nb-1-big-Data.db":     "own logins",
	"system_traces/events-92/nb-1-big-Data.db":  "own traces",
}

func remoteRig(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	if err := os.RemoveAll(r.path("backup")); err != nil {
		t.Fatal(err)
	}
	for path, text := range foreign {
		r.set("backup/"+path, text)
	}
	for path, text := range fresh {
		r.set("vol/data/"+path, text)
	}
	r.report(func(a *Report) {
		a.FQDN, a.Tables = "source-2", tablesOf(foreign)
		a.Nodes, a.TokenMap = []string{"source-2"}, []string{"source-2"}
	})
	r.set("shared.yaml", "data_file_directories: [/x]\n")
	r.set("medusa/medusa.ini", "[storage]\nstorage_provider = s3\nbucket_name = b\nprefix = own\n[cassandra]\nconfig_file = "+r.path("shared.yaml")+"\n")
	r.ID, r.Mode, r.Source, r.Prefix, r.Keep = "r1/1", modeRemote, "source-2", "theirs", keepAlways
	return r
}

func TestRemote(t *testing.T) {
	r := remoteRig(t)
	text, done := r.mustDo()
	want := map[string]string{}
	maps.Copy(want, foreign)
	for path := range foreign {
		for _, its := range []string{"system/local-", "system/peers", "system/available_ranges"} {
			if strings.HasPrefix(path, its) {
				delete(want, path)
			}
		}
	}
	for _, path := range []string{"system_auth/roles-7d/nb-1-big-Data.db", "system_traces/events-92/nb-1-big-Data.db"} {
		want[path] = fresh[path]
	}
	if got := r.data(); !maps.Equal(got, want) {
		t.Errorf("it holds\n%q\nwant\n%q", got, want)
	}
	if done.Source != "source-2" || !strings.Contains(text, "of node source-2") {
		t.Errorf("%s, %+v", text, done)
	}
	env := r.get("env")
	for _, line := range []string{`RESTORE_MAPPING={"host_map":{"cassandra-0":{"seed":false,"source":["source-2"]}},"in_place":false}`, "POD_IP=source-2"} {
		if !strings.Contains(env, line+"\n") {
			t.Errorf("no %s in\n%s", line, env)
		}
	}
	ini := r.get("private/medusa.ini")
	if !strings.Contains(ini, "prefix = theirs\n") || !strings.Contains(ini, "config_file = "+r.path("private/cassandra.yaml")+"\n") {
		t.Errorf("%s", ini)
	}
	if r.get("private/cassandra.yaml") != r.get("shared.yaml") {
		t.Error("the copy of cassandra.yaml is another")
	}
	// It can be undone like any other.
	r.ask("u1/1", actionUndo, "r1/1")
	r.Mode = ""
	r.mustDo()
	if got := r.data(); !maps.Equal(got, fresh) {
		t.Errorf("undone it holds\n%q", got)
	}
}

// TestRemoteSameName: the source is a pod of the same name elsewhere.
func TestRemoteSameName(t *testing.T) {
	r := remoteRig(t)
	r.Source = ""
	r.report(func(a *Report) { a.Tables = tablesOf(foreign) })
	r.mustDo()
	if env := r.get("env"); !strings.Contains(env, `"source":["cassandra-0"]`) || !strings.Contains(env, "POD_IP=cassandra-0\n") {
		t.Errorf("%s", env)
	}
}

// TestRemoteVerifies: what Medusa leaves out is known, all else has to be there.
func TestRemoteVerifies(t *testing.T) {
	for _, c := range []struct{ spoil, want string }{
		{"shop/peers_of_ours-44/nb-1-big-Data.db", "table shop.peers_of_ours-44 was not restored"},
		{"system/IndexInfo-7b/nb-1-big-Data.db", "table system.IndexInfo-7b was not restored"},
		{"other/local-46/.by_name/nb-1-big-Index-D.db", "table other.local-46 was not restored"},
	} {
		r := remoteRig(t)
		if err := os.Remove(r.path("backup/" + c.spoil)); err != nil {
			t.Fatal(err)
		}
		if _, err := r.run(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	// A table that makes a node itself, and is still there.
	dir := t.TempDir()
	if err := os.MkdirAll(dir+"/system/local-77/x", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/system/local-77/x/y", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tables := []Table{{Keyspace: "system", Name: "local-77", Files: map[string]int64{"z": 1}}}
	if err := Verify(dir, tables, true); err == nil || !strings.Contains(err.Error(), "is not part of the backup") {
		t.Errorf("%v", err)
	}
	if err := removeForeign(dir, tables); err != nil {
		t.Fatal(err)
	}
	if err := Verify(dir, tables, true); err != nil {
		t.Errorf("%v", err)
	}
}
