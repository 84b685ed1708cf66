package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// at has a terminal at which somebody types.
func at(in io.Reader, out *bytes.Buffer) *terminal {
	return &terminal{in: in, out: io.Discard, err: out, asks: true, size: func(io.Writer) func() (int, int) { return nil }, now: time.Now}
}

// parsed are the flags and arguments of a command line.
func parsed(t *testing.T, args ...string) (*restoreFlags, []string) {
	t.Helper()
	f := &restoreFlags{}
	command := f.command()
	if err := command.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	return f, command.Flags().Args()
}

// On a terminal the plan is shown and asked about; only yes is yes.
func TestRestoreAsks(t *testing.T) {
	for _, c := range []struct {
		answer string
		react  func(*api.Restore)
		made   bool
		said   string
	}{
		{"yes\n", completes, true, "Stop this pod and replace the data? (yes/no) "},
		{"Y\n", completes, true, "1.0 MiB"},
		{"no\n", completes, false, "Nothing was done."},
		{"\n", completes, false, "Nothing was done."},
		{"", completes, false, "Nothing was done."},
		{"yes\n", fails, false, "nothing was touched: there is no backup nightli"},
	} {
		s, kubeconfig := restoringServer(t, c.react)
		var said bytes.Buffer
		f, args := parsed(t, "-n", "ns", "--kubeconfig", kubeconfig, "pod/db-0")
		err := f.run(t.Context(), at(strings.NewReader(c.answer), &said), args)
		made := slices.ContainsFunc(s.list, func(r *api.Restore) bool { return !r.Spec.DryRun })
		if made != c.made || len(s.list) > 1 || (err == nil) != c.made || err != nil && !errors.Is(err, errRefused) || !strings.Contains(said.String(), c.said) {
			t.Errorf("%q: %v, made %v of %d, said %q", c.answer, err, made, len(s.list), &said)
		}
		if c.made && s.list[0].Spec.Backup != "nightly-2" {
			t.Errorf("%q: agreed to nightly-2, asked for %s", c.answer, s.list[0].Spec.Backup)
		}
	}
}

// reader tells that somebody is about to type.
type reader struct {
	io.Reader
	begins func()
}

func (r *reader) Read(p []byte) (int, error) {
	r.begins()
	return r.Reader.Read(p)
}

// Ctrl-C at the question does nothing; while it is waited for it leaves the Restore;
// at a plan it leaves nothing.
func TestRestoreInterrupted(t *testing.T) {
	for _, c := range []struct {
		what string
		args []string
		left int
		err  string
	}{
		{"at the question", nil, 0, "interrupted: nothing was done"},
		{"at the plan", []string{"--dry-run"}, 0, "interrupted: nothing was done"},
		{"waiting", []string{"--yes", "--wait", "--name", "r"}, 1, "interrupted; the Restore r is not, it goes on.\n  to see it:    kubectl stategraft restore wait r -n ns"},
	} {
		s, kubeconfig := restoringServer(t, func(r *api.Restore) {
			if r.Spec.DryRun && c.what == "at the question" {
				completes(r)
			}
		})
		// At the question it waits for what is typed, else for what becomes of the Restore.
		ctx, interrupt := context.WithCancel(t.Context())
		s.watched = func(string) { interrupt() }
		if c.what == "at the question" {
			s.watched = nil
		}
		pipe, never := io.Pipe()
		t.Cleanup(func() { _ = never.Close() })
		typing := &reader{pipe, interrupt}
		var said bytes.Buffer
		f, args := parsed(t, append(c.args, "-n", "ns", "--kubeconfig", kubeconfig, "pod/db-0")...)
		err := f.run(ctx, at(typing, &said), args)
		interrupt()
		if !errors.Is(err, errInterrupted) || !strings.Contains(err.Error(), c.err) || len(s.list) != c.left {
			t.Errorf("%s: %v, left %d, said %q", c.what, err, len(s.list), &said)
		}
		if c.left == 1 && (s.list[0].Spec.Cancel || len(s.deleted) > 0) {
			t.Errorf("%s: not left as it was: %+v", c.what, s.list[0].Spec)
		}
	}
}

// Names are completed from the cluster; a shell is told nothing of errors.
func TestRestoreCompletion(t *testing.T) {
	s, kubeconfig := restoringServer(t, nil)
	s.list = []*api.Restore{{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "nightly"}}}
	for line, want := range map[string][]string{
		"pod/": {"pod/db-0", "pod/db-1"}, "st": {"statefulset/db"}, "pod/db-1": {"pod/db-1"}, "pod/x": nil,
		"show n": {"nightly"}, "cancel x": nil, "--mode ": {"in-place", "remote", "merge"}, "--backup ": {"latest"},
	} {
		words := strings.Split(line, " ")
		args := append([]string{"__complete", "restore", "-n", "ns", "--kubeconfig", kubeconfig}, words...)
		out, _, err := run(nil, args...)
		got := strings.Split(strings.TrimSpace(out), "\n")
		got = got[:len(got)-1] // the directive
		if err != nil || !slices.Equal(got, want) && len(got)+len(want) > 0 {
			t.Errorf("%s: %q, want %q, %v", line, got, want, err)
		}
	}
	if out, _, err := run(nil, "__complete", "restore", "--kubeconfig", "/none", "pod/"); err != nil || !strings.HasPrefix(out, ":4") {
		t.Errorf("%q, %v", out, err)
	}
	if out, _, err := run(nil, "completion", "kubectl"); err != nil || !strings.Contains(out, `exec kubectl stategraft __complete "$@"`) {
		t.Errorf("%q, %v", out, err)
	}
}

// Bars are drawn on terminals only, and not on those that cannot move their cursor.
func TestTerminal(t *testing.T) {
	file, err := os.Open(os.DevNull) // a character device that is no terminal
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	t.Setenv("TERM", "xterm")
	if sizeOf(file) != nil || sizeOf(&strings.Builder{}) != nil {
		t.Error("what is no terminal is taken for one")
	}
	pty, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no pseudo terminal: %v", err)
	}
	defer func() { _ = pty.Close() }()
	if size := sizeOf(pty); size == nil {
		t.Error("a terminal is not seen")
	} else if columns, rows := size(); columns < 0 || rows < 0 {
		t.Errorf("%d columns, %d rows", columns, rows)
	}
	t.Setenv("TERM", "dumb")
	if sizeOf(pty) != nil {
		t.Error("TERM=dumb is not heeded")
	}
}
