package scenario

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// results are what is known of the tests so far.
type results struct {
	items   []Item
	verbose bool
	output  map[string]*strings.Builder // by test, subtests included
	rest    strings.Builder             // what belongs to no test
	done    map[string]string           // pass, fail or skip
}

func newResults(items []Item, verbose bool) *results {
	return &results{items: items, verbose: verbose, output: map[string]*strings.Builder{}, done: map[string]string{}}
}

// follow runs the tests and prints a line for each that ends. The error is that
// of the run as a whole.
func (r *results) follow(cmd *exec.Cmd) error {
	cmd.Stderr = &r.rest
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting go test: %w", err)
	}
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var event struct {
			Action, Test, Output string
			Elapsed              float64
		}
		if json.Unmarshal(lines.Bytes(), &event) != nil {
			continue
		}
		test, sub, _ := strings.Cut(event.Test, "/")
		switch event.Action {
		case "output", "build-output":
			r.add(test, event.Output)
		case "pass", "fail", "skip":
			if test != "" && sub == "" {
				r.done[test] = event.Action
				r.print(test, event.Elapsed)
			}
		}
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("go test: %w", err)
	}
	return lines.Err()
}

func (r *results) add(test, text string) {
	if r.verbose {
		fmt.Fprint(os.Stderr, text)
	}
	if test == "" {
		r.rest.WriteString(text)
		return
	}
	if r.output[test] == nil {
		r.output[test] = &strings.Builder{}
	}
	r.output[test].WriteString(text)
}

func (r *results) text(test string) string {
	if b := r.output[test]; b != nil {
		return b.String()
	}
	return ""
}

// print tells of a test that has ended.
func (r *results) print(test string, took float64) {
	for _, it := range r.items {
		if it.Test != test {
			continue
		}
		verdict := "FAIL"
		if r.done[test] == "pass" {
			verdict = "PASS"
		}
		length := time.Duration(took * float64(time.Second)).Round(time.Second)
		first := fmt.Sprintf("%-58s %s %6s  ", it.Name, verdict, length)
		figures := r.figures(test)
		if verdict == "FAIL" && len(figures) == 0 {
			figures = []string{"see below"}
		}
		if len(figures) == 0 {
			figures = []string{test}
		}
		for i, figure := range figures {
			if i > 0 {
				first = strings.Repeat(" ", len(first))
			}
			fmt.Println(first + figure)
		}
	}
}

func (r *results) figures(test string) []string {
	var found []string
	for line := range strings.Lines(r.text(test)) {
		if _, figure, ok := strings.Cut(line, "figure: "); ok {
			found = append(found, strings.TrimSpace(figure))
		}
	}
	return found
}

// summary prints the items that never ended and answers how many hold.
func (r *results) summary() int {
	held := 0
	for _, it := range r.items {
		switch r.done[it.Test] {
		case "pass":
			held++
		case "":
			fmt.Printf("%-58s FAIL         did not run to its end\n", it.Name)
		}
	}
	return held
}

// explain prints what the tests that failed have written.
func (r *results) explain(failed error) {
	for _, it := range r.items {
		if r.done[it.Test] != "pass" && r.text(it.Test) != "" {
			fmt.Printf("\nFAIL %s\n%s", it.Name, r.text(it.Test))
		}
	}
	if failed != nil {
		fmt.Printf("\n%v\n%s", failed, r.rest.String())
	}
}
