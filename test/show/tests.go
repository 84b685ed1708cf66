package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/stategraft/stategraft/test/cluster"
)

// testRun is what came of the tests of a package.
type testRun struct {
	verdicts map[string]string // pass, fail or skip, by test and subtest
	output   map[string]string
	err      error // of the run as a whole
}

// tests runs the named tests of a package, all tests of which run together the
// first time that one of them is asked for.
func (s *show) tests(pkg string, names ...string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		run, ok := s.results[pkg]
		if !ok {
			run = s.goTest(ctx, pkg)
			s.results[pkg] = run
		}
		return run.judge(names)
	}
}

// judge looks at the named tests: each has to have run and passed.
func (r *testRun) judge(names []string) (string, error) {
	var figures, faults []string
	cases := 0
	for _, name := range names {
		switch verdict := r.verdicts[name]; verdict {
		case "pass":
		case "":
			faults = append(faults, name+" did not run")
		default:
			faults = append(faults, name+": "+verdict)
		}
		for _, sub := range sortedKeys(r.verdicts) {
			if !strings.HasPrefix(sub, name+"/") && sub != name {
				continue
			}
			if sub != name {
				cases++
			}
			for line := range strings.Lines(r.output[sub]) {
				if _, figure, ok := strings.Cut(line, "figure: "); ok {
					figures = append(figures, strings.TrimSpace(figure))
				}
			}
			if r.verdicts[sub] == "fail" && sub != name || r.verdicts[sub] == "skip" {
				faults = append(faults, sub+": "+r.verdicts[sub]+"\n"+r.output[sub])
			} else if r.verdicts[sub] == "fail" {
				faults = append(faults, r.output[sub])
			}
		}
	}
	figure := strings.Join(figures, "; ")
	if figure == "" && cases > 0 {
		figure = fmt.Sprintf("%d cases", cases)
	}
	if figure == "" {
		figure = strings.Join(names, ", ")
	}
	if len(faults) == 0 {
		return figure, nil
	}
	if r.err != nil && len(r.verdicts) == 0 {
		faults = append(faults, r.err.Error())
	}
	return "", fmt.Errorf("%s", strings.Join(faults, "\n"))
}

// goTest runs all tests of a package, with the control plane allowed.
func (s *show) goTest(ctx context.Context, pkg string) *testRun {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", "test", "-json", "-count=1", "-timeout=20m", pkg)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.root, &stdout, &stderr
	cmd.Env = append(os.Environ(), cluster.EnabledEnv+"=1")
	run := &testRun{verdicts: map[string]string{}, output: map[string]string{}}
	run.err = cmd.Run()
	var rest strings.Builder // what belongs to no test, such as a compiler's errors
	lines := bufio.NewScanner(&stdout)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var event struct{ Action, Test, Output string }
		if json.Unmarshal(lines.Bytes(), &event) != nil {
			continue
		}
		switch {
		case event.Action == "output" && event.Test != "":
			run.output[event.Test] += event.Output
		case event.Action == "output" || event.Action == "build-output":
			rest.WriteString(event.Output)
		case event.Test != "" && slices.Contains([]string{"pass", "fail", "skip"}, event.Action):
			run.verdicts[event.Test] = event.Action
		}
	}
	if err := lines.Err(); err != nil && run.err == nil {
		run.err = err
	}
	if run.err != nil {
		run.err = fmt.Errorf("go test %s: %w\n%s%s", pkg, run.err, rest.String(), stderr.String())
	}
	return run
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
