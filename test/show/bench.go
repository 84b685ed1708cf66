package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// What an admission may cost: of an empty handler on the same server, and of the
// same mutation by a diff of two documents.
const (
	mostOfFloor = 1.5
	mostOfDiff  = 0.25
	mostBytes   = 1.6
)

// measured are the medians of a benchmark.
type measured struct{ ns, bytes float64 }

// benchmark compares the three handlers on a shape of pod.
func (s *show) benchmark(shape string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		if s.medians == nil {
			medians, err := s.measure(ctx)
			if err != nil {
				return "", err
			}
			s.medians = medians
		}
		admit, floor, diff := s.medians["Admit/"+shape], s.medians["Floor/"+shape], s.medians["Diff/"+shape]
		if admit.ns == 0 || floor.ns == 0 || diff.ns == 0 || floor.bytes == 0 {
			return "", fmt.Errorf("it was not measured: %v", s.medians)
		}
		ofFloor, ofDiff, bytes := admit.ns/floor.ns, admit.ns/diff.ns, admit.bytes/floor.bytes
		figure := fmt.Sprintf("%.0f µs: %.2f of Floor's time, %.3f of Diff's, %.2f of Floor's bytes", admit.ns/1000, ofFloor, ofDiff, bytes)
		if ofFloor > mostOfFloor || ofDiff > mostOfDiff || bytes > mostBytes {
			return figure, fmt.Errorf("%s; at most %.2f, %.2f and %.2f", figure, mostOfFloor, mostOfDiff, mostBytes)
		}
		return figure, nil
	}
}

var benchLine = regexp.MustCompile(`^BenchmarkAdmission/([^\s]+?)(?:-\d+)?\s+\d+\s+([\d.]+) ns/op.*?\s(\d+) B/op`)

// measure runs the benchmark in rounds, so that what else the machine does falls
// on all handlers alike, and takes the median of each.
func (s *show) measure(ctx context.Context) (map[string]measured, error) {
	program := filepath.Join(s.bin, "webhook.test")
	if out, err := s.goCommand(ctx, "test", "-c", "-o", program, "./webhook"); err != nil {
		return nil, fmt.Errorf("building the benchmark: %w\n%s", err, tail(out, 30))
	}
	times, sizes := map[string][]float64{}, map[string][]float64{}
	for range s.rounds {
		cmd := exec.CommandContext(ctx, program, "-test.run=^$", "-test.bench=^BenchmarkAdmission$", "-test.benchmem",
			"-test.benchtime="+s.benchTime.String())
		cmd.Dir, cmd.WaitDelay = filepath.Join(s.root, "webhook"), time.Second
		out, err := cmd.CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("running the benchmark: %w\n%s", err, tail(string(out), 30))
		}
		for line := range strings.Lines(string(out)) {
			m := benchLine.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			ns, err := strconv.ParseFloat(m[2], 64)
			if err != nil {
				return nil, fmt.Errorf("reading %q: %w", line, err)
			}
			size, err := strconv.ParseFloat(m[3], 64)
			if err != nil {
				return nil, fmt.Errorf("reading %q: %w", line, err)
			}
			times[m[1]], sizes[m[1]] = append(times[m[1]], ns), append(sizes[m[1]], size)
		}
	}
	medians := map[string]measured{}
	for name := range times {
		medians[name] = measured{median(times[name]), median(sizes[name])}
	}
	return medians, nil
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
