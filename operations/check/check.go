// Package check looks at a cluster before and after Stategraft is installed and
// says what is wrong, in words and with the remedy. Reading the cluster is in
// thin functions on [Cluster]; what is made of it is judged by pure functions,
// which the tests are about. Nothing is ever written: the one creation is a dry
// run.
//
//	check.go         items, findings, the run
//	items.go         the items, in order
//	cluster.go       the clients, what is read once and shared
//	rights.go        what the person who asks may read; errors as findings
//	installation.go  where Stategraft is installed, if it is
//	report.go        the document of -o json
//	text.go          the lines for people
//	preflight.go     what is looked at though nothing is installed
//	asked.go         the namespace that was asked for
//	remedy.go        remedies that several items name
//
// and a file for each concern. docs/check.md explains each item.
package check

import (
	"context"
	"fmt"
	"strings"

	"github.com/stategraft/stategraft/workload"
)

// Status is what an item found.
type Status string

// The statuses, from the best to the worst.
const (
	// OK was looked at and is as it should be.
	OK Status = "ok"
	// Info is worth knowing and asks for nothing.
	Info Status = "info"
	// Warn will become a fault, or is one that its owner may have meant.
	Warn Status = "warn"
	// Skip could not be looked at: a right is lacking, the API server did not
	// answer in time. It is never taken for OK.
	Skip Status = "skip"
	// Fail is broken.
	Fail Status = "fail"
)

// Statuses lists them from the best to the worst.
var Statuses = []Status{OK, Info, Warn, Skip, Fail}

// Worse tells whether the status is worse than the other.
func (s Status) Worse(than Status) bool { return rank(s) > rank(than) }

func rank(s Status) int {
	for i, status := range Statuses {
		if s == status {
			return i
		}
	}
	return len(Statuses)
}

// Finding is one thing that an item found.
type Finding struct {
	Item    string `json:"item"`
	Status  Status `json:"status"`
	Subject string `json:"subject,omitempty"` // namespace/name, or a name alone; empty for the cluster
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"` // what settles it; empty where nothing has to be
}

// messageLimit bounds a message that holds what others wrote, in bytes.
const messageLimit = 600

func finding(status Status, subject, format string, args ...any) Finding {
	return Finding{Status: status, Subject: subject, Message: clean(fmt.Sprintf(format, args...))}
}

// With gives the finding with what settles it.
func (f Finding) With(format string, args ...any) Finding {
	f.Remedy = clean(fmt.Sprintf(format, args...))
	return f
}

// clean keeps what a cluster holds from writing to the terminal, or over it.
func clean(text string) string {
	return workload.Clip(workload.Printable(strings.Join(strings.Fields(text), " ")), messageLimit)
}

// Group is the heading under which an item is printed.
type Group string

// The groups, in order.
const (
	GroupCluster      Group = "Cluster"
	GroupInstallation Group = "Stategraft"
	GroupNamespaces   Group = "Namespaces"
	GroupPods         Group = "Pods"
)

// Item is one thing to look at.
type Item struct {
	ID    string
	Title string
	Group Group
	Look  func(ctx context.Context, c *Cluster) []Finding

	// Installed says that there is nothing to look at before the installation.
	Installed bool
}

// notInstalled is what an item says that has nothing to look at yet.
const notInstalled = "not installed yet"

// early is the finding of an item that has nothing to look at before the
// installation. Who named it is not to take that for an answer.
func early(named bool) Finding {
	if named {
		return finding(Skip, "", "not looked at: Stategraft is not installed, and this is about an installation").
			With("install it first, or leave --only out to see what an installation needs")
	}
	return finding(Info, "", notInstalled)
}

// Run looks at the items one after the other. An item that finds nothing worth
// saying is OK. What keeps one from being looked at is a finding of status Skip;
// errors are that there is no cluster, or not the namespace that was asked for.
func Run(ctx context.Context, c *Cluster, items []Item) (*Report, error) {
	if err := c.validName(); err != nil {
		return nil, err
	}
	version, err := c.server(ctx)
	if err != nil {
		return nil, fmt.Errorf("no cluster answers at %s: %w", c.Where, err)
	}
	if err := c.exists(ctx); err != nil {
		return nil, err
	}
	installation := c.installation(ctx)
	report := newReport(c, version.GitVersion, installation)
	for _, item := range items {
		found := []Finding{early(c.Named)}
		if !item.Installed || installation.Mode() == Doctor {
			found = item.Look(ctx, c)
		}
		if len(found) == 0 {
			found = []Finding{{Status: OK}}
		}
		report.add(item, found)
	}
	return report, nil
}
