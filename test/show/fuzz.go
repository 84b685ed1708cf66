package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

type fuzzTarget struct{ name, pkg, dir string }

// listFuzzTargets finds every fuzz target of the repository.
func (s *show) listFuzzTargets(ctx context.Context) error {
	out, err := s.goCommand(ctx, "test", "-list", "^Fuzz", "./...")
	if err != nil {
		return fmt.Errorf("listing the fuzz targets: %w\n%s", err, tail(out, 30))
	}
	var names []string // those since the last package
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 1 && strings.HasPrefix(line, "Fuzz"):
			names = append(names, fields[0])
		case len(fields) > 1 && fields[0] == "ok":
			if len(names) == 0 {
				continue
			}
			dir, err := s.goCommand(ctx, "list", "-f", "{{.Dir}}", fields[1])
			if err != nil {
				return fmt.Errorf("finding package %s: %w", fields[1], err)
			}
			for _, name := range names {
				s.fuzzing = append(s.fuzzing, fuzzTarget{name, fields[1], strings.TrimSpace(dir)})
			}
			names = nil
		}
	}
	return nil
}

func (s *show) fuzzTargets() []fuzzTarget { return s.fuzzing }

var (
	executions = regexp.MustCompile(`execs: (\d+)`)
	baseline   = regexp.MustCompile(`baseline coverage: (\d+)/\d+ completed, now fuzzing`)
)

// fuzz runs a target for a fixed time. Running the seeds is part of that time, and
// no fuzzing: it does not count, and a target that gets no further fails.
func (s *show) fuzz(target fuzzTarget) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		program := filepath.Join(s.bin, target.name+".test")
		if out, err := s.goCommand(ctx, "test", "-c", "-fuzz", "^"+target.name+"$", "-o", program, target.pkg); err != nil {
			return "", fmt.Errorf("building it: %w\n%s", err, tail(out, 30))
		}
		const attempts = 3
		for attempt := 1; ; attempt++ {
			out, err := s.fuzzOnce(ctx, target, program)
			if err != nil && attempt < attempts && overtime(out) {
				continue
			}
			if err != nil {
				return "", fmt.Errorf("%w\n%s", err, tail(out, 30))
			}
			inputs := last(executions, out) - last(baseline, out)
			if last(baseline, out) == 0 || inputs <= 0 {
				return "", errors.New("it ran no more than its seeds:\n" + tail(out, 30))
			}
			return fmt.Sprintf("%d inputs", inputs), nil
		}
	}
}

func (s *show) fuzzOnce(ctx context.Context, target fuzzTarget, program string) (string, error) {
	// A new folder each time: all that earlier runs found interesting would be
	// run first, which after some of them takes all the time that there is.
	cache, err := os.MkdirTemp(s.bin, "corpus-")
	if err != nil {
		return "", fmt.Errorf("making a folder for the inputs: %w", err)
	}
	cmd := exec.CommandContext(ctx, program, "-test.run=^$", "-test.fuzz=^"+target.name+"$", "-test.fuzzcachedir="+cache,
		"-test.fuzztime="+s.fuzzTime.String(),
		// Making each of them as small as can be would take most of the time: by
		// default up to a minute each.
		"-test.fuzzminimizetime=10x")
	cmd.Dir, cmd.WaitDelay = target.dir, 10*time.Second // an input that fails is written there
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// last is the number that the pattern finds last, or 0.
func last(pattern *regexp.Regexp, text string) int {
	found := pattern.FindAllStringSubmatch(text, -1)
	if len(found) == 0 {
		return 0
	}
	n, err := strconv.Atoi(found[len(found)-1][1])
	if err != nil {
		return 0
	}
	return n
}

// overtime tells a failure that is not the target's: on a loaded machine a worker
// is at times still busy when the time is up, which the go command calls a
// failure (golang.org/issue/75804). A target that fails leaves its input.
func overtime(out string) bool {
	return strings.Contains(out, "context deadline exceeded") && !strings.Contains(out, "Failing input")
}
