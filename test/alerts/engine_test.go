package alerts

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/template"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

var engine = promql.NewEngine(promql.EngineOpts{
	MaxSamples: 1_000_000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute,
	EnableAtModifier: true, EnableNegativeOffset: true, Parser: promQL,
})

// firing evaluates the rules of a name from the start until the given time, one
// interval after the other, as Prometheus does (rules/alerting.go, which would
// bring the storage, the notifier and four clouds with it): an alert fires that has
// been active for as long as the rule says.
func (s scenario) firing(t *testing.T, file scenarios, all []rulefmt.Rule, name string, until time.Duration) (alerts []alert) {
	t.Helper()
	data := s.load(t)
	known := false
	for _, rule := range all {
		if rule.Alert != name {
			continue
		}
		known = true
		if rule.KeepFiringFor != 0 {
			t.Fatalf("%s: keep_firing_for is not understood here", name)
		}
		since := map[uint64]time.Time{}
		var now promql.Vector
		for at := time.Duration(0); at <= until; at += file.Interval.duration() {
			now = query(t, data, rule.Expr, time.Unix(0, 0).Add(at))
			still := map[uint64]time.Time{}
			for _, sample := range now {
				key := sample.Metric.Hash()
				still[key] = time.Unix(0, 0).Add(at)
				if before, ok := since[key]; ok {
					still[key] = before
				}
			}
			since = still
		}
		for _, sample := range now {
			if time.Unix(0, 0).Add(until).Sub(since[sample.Metric.Hash()]) >= time.Duration(rule.For) {
				alerts = append(alerts, written(t, rule, sample))
			}
		}
	}
	if !known {
		t.Fatalf("%s is no alert of these rules", name)
	}
	return alerts
}

func query(t *testing.T, data storage.Queryable, expr string, at time.Time) promql.Vector {
	t.Helper()
	q, err := engine.NewInstantQuery(t.Context(), data, nil, expr, at)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	vector, err := q.Exec(t.Context()).Vector()
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	return append(promql.Vector{}, vector...)
}

// written is the alert as it is sent: with the labels of the rule, and its
// templates filled in.
func written(t *testing.T, rule rulefmt.Rule, sample promql.Sample) alert {
	t.Helper()
	from := sample.Metric.Map()
	delete(from, model.MetricNameLabel)
	data := template.AlertTemplateData(from, nil, "", sample)
	expand := func(text string) string {
		const head = "{{$labels := .Labels}}{{$externalLabels := .ExternalLabels}}{{$externalURL := .ExternalURL}}{{$value := .Value}}"
		out, err := template.NewTemplateExpander(context.Background(), head+text, rule.Alert, data, 0, nil, nil, nil).Expand()
		if err != nil {
			t.Fatalf("%s: %v", rule.Alert, err)
		}
		return out
	}
	a := alert{labels: maps.Clone(from), annotations: map[string]string{}}
	for key, text := range rule.Labels {
		a.labels[key] = expand(text)
	}
	for key, text := range rule.Annotations {
		a.annotations[key] = expand(text)
	}
	return a
}

// load makes a storage of the scenario's series, which is asked for by name and
// labels and nothing else.
func (s scenario) load(t *testing.T) storage.Queryable {
	t.Helper()
	var all []storage.Series
	for _, line := range s.Series {
		lset, values, err := promQL.ParseSeriesDesc(line.Series + " " + line.Values)
		if err != nil {
			t.Fatalf("%s %s: %v", line.Series, line.Values, err)
		}
		var samples []chunks.Sample
		for i, v := range values {
			if !v.Omitted {
				samples = append(samples, point{time.Duration(i) * s.Interval.duration(), v.Value})
			}
		}
		all = append(all, storage.NewListSeries(lset, samples))
	}
	return &storage.MockQueryable{MockQuerier: &storage.MockQuerier{
		SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
			var found []storage.Series
		next:
			for _, series := range all {
				for _, m := range matchers {
					if !m.Matches(series.Labels().Get(m.Name)) {
						continue next
					}
				}
				found = append(found, series)
			}
			return &list{found: found}
		},
	}}
}

// list is a storage.SeriesSet.
type list struct {
	found []storage.Series
	at    int
}

func (l *list) Next() bool                      { l.at++; return l.at <= len(l.found) }
func (l *list) At() storage.Series              { return l.found[l.at-1] }
func (*list) Err() error                        { return nil }
func (*list) Warnings() annotations.Annotations { return nil }

// point is a chunks.Sample: a value so long after the start.
type point struct {
	after time.Duration
	value float64
}

func (p point) T() int64                    { return p.after.Milliseconds() }
func (p point) F() float64                  { return p.value }
func (point) ST() int64                     { return 0 }
func (point) H() *histogram.Histogram       { return nil }
func (point) FH() *histogram.FloatHistogram { return nil }
func (point) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (p point) Copy() chunks.Sample         { return p }
