// Command show runs what the webhook has to show and prints a line for each: its
// name, PASS or FAIL, and the figure. It ends with status 0 if all hold, 1 if
// not, and 2 if it could not find out.
//
// To add something, write a test, and an item here that names it. A test tells
// its figure by logging a line that starts with "figure: "; of others the
// number of subtests is told.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/stategraft/stategraft/test/controlplane/rigged"
)

const (
	onCluster = "./test/controlplane"
	inWebhook = "./webhook"
	inCommand = "./cmd/kubectl-stategraft"
)

// items are what has to hold, in the order of the printed table.
func items(s *show) []item {
	list := []item{
		{"explain, each row of the corpus's truth", s.truth("test/corpus")},
		{"explain, each row of the extra truth", s.truth("test/corpus/extra")},
		{"command and webhook: the same golden result", s.tests(inCommand, "TestGolden")},
		{"API server: each pod taken, original whole, as explain says", s.tests(onCluster, "TestCorpus")},
		{"raw JSON kept byte for byte, also fields no Go type knows", s.tests(inWebhook, "TestCorpusProperties")},
		{"the same operations each time", s.tests(inWebhook, "TestDeterministic", "TestDeterministicEvidence")},
		{"random pods", s.tests(inWebhook, "TestRandomPods")},
	}
	for _, target := range s.fuzzTargets() {
		list = append(list, item{fmt.Sprintf("%s for %s", target.name, s.fuzzTime), s.fuzz(target)})
	}
	list = append(list, []item{
		{"200 pods of StatefulSets injected, none elsewhere; sets unchanged", s.tests(onCluster, "TestTwoHundredPods")},
		{"an event on the owner, none on a dry run", s.tests(onCluster, "TestEvents", "TestEventOnStatefulSet")},
		{"a later webhook's change survives, ours is there once", s.tests(onCluster, "TestLaterWebhook")},
		{"webhook stopped: pods as they were, restore refused until it is back", s.tests(onCluster, "TestWebhookDown")},
		{"Pod Security Standards", s.tests(onCluster, "TestPodSecurity")},
		{"quotas and limit ranges never refuse a pod because of us", s.tests(onCluster, "TestQuota")},
		{"Guaranteed pods stay Guaranteed", s.tests(onCluster, "TestGuaranteed")},
		{"configuration followed, the last good one kept", s.tests(onCluster, "TestConfigReload")},
		{"bad input: an answer each, no crash, no refusal", s.tests(onCluster, "TestBadInput")},
		{"1,500 variables and 200 kB of annotations, on the API server", s.tests(onCluster, "TestLargePods")},
		{"metrics: labels of closed sets only", s.tests(onCluster, "TestMetrics")},
		{"hostile values", s.tests(inWebhook, "TestHostile", "TestAnnotationValues")},
	}...)
	for _, shape := range []string{"cass-operator", "plain-official-41", "elassandra-operator"} {
		list = append(list, item{"benchmark " + shape, s.benchmark(shape)})
	}
	return append(list, item{"make demo", s.demo})
}

// item is something that has to hold. Its check answers the figure, or an error
// that says what does not hold.
type item struct {
	name  string
	check func(context.Context) (string, error)
}

// show runs the items. What several of them need is done once.
type show struct {
	root      string
	bin       string // folder of built programs
	fuzzTime  time.Duration
	rounds    int // of the benchmark
	benchTime time.Duration

	fuzzing []fuzzTarget
	results map[string]*testRun // of a package
	medians map[string]measured // of a benchmark
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status, err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "show:", err)
	}
	os.Exit(status)
}

func run(ctx context.Context) (int, error) {
	s := &show{results: map[string]*testRun{}}
	flag.DurationVar(&s.fuzzTime, "fuzztime", 15*time.Second, "how long each fuzz target runs")
	flag.DurationVar(&s.benchTime, "benchtime", 300*time.Millisecond, "how long each benchmark runs in a round")
	flag.IntVar(&s.rounds, "rounds", 7, "rounds of the benchmark, of which the median counts")
	only := flag.String("only", "", "run only the items whose name contains this")
	flag.Parse()

	var err error
	if s.root, err = rigged.Root(ctx); err != nil {
		return 2, err
	}
	dir, err := os.MkdirTemp("", "stategraft-show-")
	if err != nil {
		return 2, fmt.Errorf("making a folder for the programs: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	s.bin = filepath.Join(dir, "bin")
	if err := rigged.Build(ctx, s.root, s.bin); err != nil {
		return 2, err
	}
	if err := s.listFuzzTargets(ctx); err != nil {
		return 2, err
	}
	held, all := 0, 0
	var failures []string
	for _, it := range items(s) {
		if !strings.Contains(it.name, *only) {
			continue
		}
		all++
		figure, err := it.check(ctx)
		if ctx.Err() != nil {
			return 2, context.Cause(ctx)
		}
		verdict := "PASS"
		if err == nil {
			held++
		} else {
			verdict = "FAIL"
			failures = append(failures, fmt.Sprintf("%s: %v", it.name, err))
			if figure == "" {
				figure = "see below"
			}
		}
		fmt.Printf("%-69s %s  %s\n", it.name, verdict, figure)
	}
	fmt.Printf("\n%d of %d hold\n", held, all)
	for _, text := range failures {
		fmt.Printf("\nFAIL %s\n", text)
	}
	if held < all || all == 0 {
		return 1, nil
	}
	return 0, nil
}
