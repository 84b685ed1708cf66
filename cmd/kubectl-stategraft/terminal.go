package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/ask"
)

// terminal is where a command reads and writes, and whether somebody sits there.
type terminal struct {
	in       io.Reader
	out, err io.Writer
	asks     bool                                       // questions are answered
	size     func(io.Writer) func() (columns, rows int) // nil for what is no terminal
	now      func() time.Time
}

func terminalOf(command *cobra.Command) *terminal {
	t := &terminal{in: command.InOrStdin(), out: command.OutOrStdout(), err: command.ErrOrStderr(), size: sizeOf, now: time.Now}
	in, ok := t.in.(*os.File)
	t.asks = ok && term.IsTerminal(int(in.Fd())) && sizeOf(t.err) != nil
	return t
}

// sizeOf tells the size of a terminal, as it is when it is asked for: windows
// change. It is nil for what is no terminal, or one that cannot move its cursor.
func sizeOf(w io.Writer) func() (columns, rows int) {
	file, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) || os.Getenv("TERM") == "dumb" {
		return nil
	}
	return func() (int, int) {
		columns, rows, err := term.GetSize(int(file.Fd()))
		if err != nil {
			return 0, 0
		}
		return columns, rows
	}
}

// progress shows how far a Restore is: on standard output, unless an object is to be
// printed there.
func (t *terminal) progress(aside bool) *ask.Progress {
	out := t.out
	if aside {
		out = t.err
	}
	return &ask.Progress{Out: out, Size: t.size(out), Now: t.now}
}

// confirm asks a question to which only yes is yes.
func (t *terminal) confirm(ctx context.Context, question string) error {
	fmt.Fprintf(t.err, "%s (yes/no) ", question)
	answers := make(chan string, 1)
	go func() { // it outlives an interrupted question: a read of a terminal cannot be ended
		line, _ := bufio.NewReader(t.in).ReadString('\n')
		answers <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(t.err)
		return fmt.Errorf("%w: nothing was done", errInterrupted)
	case answer := <-answers:
		if answer == "yes" || answer == "y" {
			return nil
		}
		fmt.Fprintln(t.err, "Nothing was done.")
		return errNotRestored
	}
}

// asObject gives an object its kind, which clients leave out, and leaves out what
// kubectl does.
func asObject(o client.Object) client.Object {
	out, ok := o.DeepCopyObject().(client.Object)
	if !ok {
		panic("a copy of an object is none")
	}
	out.GetObjectKind().SetGroupVersionKind(api.GroupVersion.WithKind(kindOf(o)))
	out.SetManagedFields(nil)
	return out
}

func kindOf(o client.Object) string {
	if _, ok := o.(*api.Backup); ok {
		return "Backup"
	}
	return "Restore"
}

// nameOf is an object as kubectl's -o name has it.
func nameOf(o client.Object) string {
	return strings.ToLower(kindOf(o)) + "." + api.Group + "/" + o.GetName()
}

// printObject prints one; without an output its name and what became of it.
func printObject(w io.Writer, output string, o client.Object, done string) error {
	switch output {
	case "", "name":
		name := nameOf(o)
		if output == "" && done != "" {
			name += " " + done
		}
		_, err := fmt.Fprintln(w, name)
		return err
	}
	return printAs(w, output, asObject(o))
}

// objectList is a list of one kind, each object with its own, so that it can be
// applied.
type objectList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []client.Object `json:"items"`
}

func printList[O any, P interface {
	*O
	client.Object
}](w io.Writer, output string, meta metav1.ListMeta, items []O) error {
	out := objectList{ListMeta: meta, Items: []client.Object{}}
	out.APIVersion, out.Kind = api.GroupVersion.String(), kindOf(P(new(O)))+"List"
	for i := range items {
		if output == "name" {
			if err := printObject(w, output, P(&items[i]), ""); err != nil {
				return err
			}
			continue
		}
		out.Items = append(out.Items, asObject(P(&items[i])))
	}
	if output == "name" {
		return nil
	}
	return printAs(w, output, out)
}

func printAs(w io.Writer, output string, object any) error {
	text, err := json.MarshalIndent(object, "", "    ")
	if err == nil && output == "yaml" {
		text, err = yaml.JSONToYAML(text)
	} else {
		text = append(text, '\n')
	}
	if err != nil {
		return fmt.Errorf("writing the object: %w", err)
	}
	_, err = w.Write(text)
	return err
}
