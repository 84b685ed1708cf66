package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// truth has the built program explain each pod of a truth.tsv.
func (s *show) truth(dir string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		dir := filepath.Join(s.root, filepath.FromSlash(dir))
		text, err := os.ReadFile(filepath.Join(dir, "truth.tsv"))
		if err != nil {
			return "", err
		}
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		good := 0
		var faults []error
		for _, line := range lines[1:] {
			want := strings.Split(line, "\t")
			got, err := s.explain(ctx, filepath.Join(dir, "pods", want[0]+".yaml"))
			if err == nil && strings.Join(got, "\t") != strings.Join(want[1:], "\t") {
				err = fmt.Errorf("explain says %q, the truth is %q", got, want[1:])
			}
			if err != nil {
				faults = append(faults, fmt.Errorf("%s: %w", want[0], err))
				continue
			}
			good++
		}
		return fmt.Sprintf("%d of %d rows", good, len(lines)-1), errors.Join(faults...)
	}
}

// explain answers the columns of truth.tsv after the first.
func (s *show) explain(ctx context.Context, path string) ([]string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, "kubectl-stategraft"), "explain", "-o", "json", "-f", path)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("explain: %w: %s", err, stderr.String())
	}
	var said struct {
		Decision, Reason string
		Workload         struct{ Kind, Container, DataVolume, DataPath, Snapshot string }
	}
	if err := json.Unmarshal(stdout.Bytes(), &said); err != nil {
		return nil, fmt.Errorf("reading what explain says: %w", err)
	}
	w := said.Workload
	columns := []string{said.Decision, said.Reason, w.Kind, w.Container, w.DataVolume, w.DataPath, w.Snapshot}
	for i, column := range columns {
		if column == "" {
			columns[i] = "-"
		}
	}
	return columns, nil
}

// demo runs the demonstration, which checks all that it claims.
func (s *show) demo(ctx context.Context) (string, error) {
	began := time.Now()
	out, err := s.goCommand(ctx, "run", "./test/demo")
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, tail(out, 30))
	}
	return fmt.Sprintf("%.0f s", time.Since(began).Seconds()), nil
}

// goCommand runs the go command in the repository and answers all its output.
func (s *show) goCommand(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = s.root
	// An interrupt lets the program that it runs stop what it started.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 30 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("go %s: %w", args[0], err)
	}
	return string(out), err
}

func tail(text string, lines int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
