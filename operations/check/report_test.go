package check

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/stategraft/stategraft/test/golden"
)

// fixed is a report of fixed findings: every status, subjects that are folded,
// more of them than are written out, an item without anything to say.
func fixed(found *Installation) *Report {
	c := &Cluster{Options: Options{Where: "https://10.0.0.1:6443 (context prod of /home/me/.kube/config)", Namespace: ""}}
	r := newReport(c, "v1.37.2", found)
	item := func(id string) Item {
		return Items[slices.IndexFunc(Items, func(i Item) bool { return i.ID == id })]
	}
	r.add(item("server-version"), []Finding{finding(OK, "", "Kubernetes v1.37.2")})
	r.add(item("rights"), []Finding{finding(Info, "", "you may not: list nodes").With("items below that need it are skipped")})
	r.add(item("nodes"), skipped(unread(errNoRight, right{Verb: "list", Resource: "nodes"})))
	r.add(item("certificate"), []Finding{finding(Warn, "stategraft/stategraft-webhook-tls", "expires in 10 days").With("see that cert-manager runs")})
	r.add(item("admission"), []Finding{finding(Fail, "db", "a Cassandra pod comes back without sidecars").With("look at <components> & certificate")})
	r.add(item("configuration"), []Finding{{Status: OK}})
	var lost []Finding
	for i := range 22 {
		lost = append(lost, finding(Fail, fmt.Sprintf("db/ring-%d", i), "has no sidecar (webhook-was-down)").With("restart StatefulSet ring"))
	}
	lost = append(lost, finding(Warn, "db/old-0", "has no sidecar (created-before)"), finding(Fail, "db/ring-99", "has no sidecar (webhook-was-down)").With("restart StatefulSet ring"))
	r.add(item("sidecars"), lost)
	return r
}

func TestReportGolden(t *testing.T) {
	installed := &Installation{Namespace: "stategraft", Configurations: []admissionregistrationv1.MutatingWebhookConfiguration{barely}}
	doctor := fixed(installed)
	preflight := newReport(&Cluster{Options: Options{Where: "https://10.0.0.1:6443"}}, "v1.37.2", &Installation{Namespace: "stategraft"})
	preflight.add(Items[0], []Finding{finding(OK, "", "Kubernetes v1.37.2")})
	preflight.add(Items[4], []Finding{finding(Info, "", notInstalled)})
	unknown := newReport(&Cluster{Options: Options{Where: "https://10.0.0.1:6443", Namespace: "db"}}, "v1.37.2", &Installation{ConfigurationsErr: errNoRight})
	unknown.add(Items[0], []Finding{finding(OK, "", "Kubernetes v1.37.2")})
	for _, c := range []struct {
		file  string
		write func(*bytes.Buffer) error
	}{
		{"doctor.txt", func(b *bytes.Buffer) error { return doctor.Text(b, false) }},
		{"doctor-colour.txt", func(b *bytes.Buffer) error { return doctor.Text(b, true) }},
		{"doctor.json", func(b *bytes.Buffer) error { return doctor.JSON(b) }},
		{"preflight.txt", func(b *bytes.Buffer) error { return preflight.Text(b, false) }},
		{"unknown.txt", func(b *bytes.Buffer) error { return unknown.Text(b, false) }},
	} {
		var got bytes.Buffer
		if err := c.write(&got); err != nil {
			t.Fatal(err)
		}
		golden.Compare(t, "testdata/"+c.file, got.Bytes())
	}
}

func TestResult(t *testing.T) {
	for _, c := range []struct {
		statuses []Status
		want     Result
	}{
		{[]Status{OK, Info, Warn}, Fine},
		{[]Status{Skip, OK}, Incomplete},
		{[]Status{Skip, Fail, OK}, Broken},
	} {
		r := newReport(&Cluster{}, "", &Installation{})
		worst := OK
		for _, status := range c.statuses {
			r.add(Items[0], []Finding{{Status: status}})
			if status.Worse(worst) {
				worst = status
			}
		}
		if r.Result != c.want {
			t.Errorf("%v: %s", c.statuses, r.Result)
		}
		r.add(Items[1], []Finding{{Status: OK}, {Status: worst}, {Status: OK}})
		if got := r.Items[len(r.Items)-1].Status; got != worst {
			t.Errorf("%v: the item is %s", c.statuses, got)
		}
	}
}

// TestItemsAreDocumented compares the items with docs/check.md, both ways and in
// order, and the role there with the rights that the items need.
func TestItemsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/check.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented, known []string
	for _, row := range regexp.MustCompile("(?m)^### `([a-z-]+)`$").FindAllStringSubmatch(string(text), -1) {
		documented = append(documented, row[1])
	}
	for _, item := range Items {
		known = append(known, item.ID)
	}
	if !slices.Equal(documented, known) {
		t.Errorf("documented %v\ncode has   %v", documented, known)
	}
	for _, r := range readingRights("stategraft", "") {
		line := regexp.MustCompile(`(?m)^- \{apiGroups: \["?` + regexp.QuoteMeta(r.Group) + `"?\], resources: \[[^]]*\b` + r.Resource + `\b[^]]*\], verbs: \[[^]]*\b` + r.Verb + `\b`)
		if !line.MatchString(strings.ReplaceAll(string(text), "    - {", "- {")) {
			t.Errorf("the role in docs/check.md lacks: %s", r)
		}
	}
}
