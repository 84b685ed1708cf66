package alerts

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

// dashboard is what is looked at of Grafana's JSON.
type dashboard struct {
	UID           string `json:"uid"`
	Title         string `json:"title"`
	ID            *int   `json:"id"` // of one Grafana's database
	SchemaVersion int    `json:"schemaVersion"`
	Panels        []struct {
		ID          int                      `json:"id"`
		Type        string                   `json:"type"`
		Title       string                   `json:"title"`
		Description string                   `json:"description"`
		Datasource  datasource               `json:"datasource"`
		GridPos     struct{ H, W, X, Y int } `json:"gridPos"`
		Targets     []struct {
			RefID      string     `json:"refId"`
			Expr       string     `json:"expr"`
			Datasource datasource `json:"datasource"`
		} `json:"targets"`
	} `json:"panels"`
	Templating struct {
		List []struct {
			Name       string `json:"name"`
			Type       string `json:"type"`
			Query      any    `json:"query"`
			Definition string `json:"definition"`
		} `json:"list"`
	} `json:"templating"`
}

type datasource struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

// variables are replaced by Grafana before Prometheus sees the expression.
var variables = strings.NewReplacer("$__rate_interval", "5m", "$__range", "6h", "$namespace", ".*")

func TestDashboard(t *testing.T) {
	var d dashboard
	text := read(t, filepath.Join(chart, "dashboards", "stategraft.json"))
	if err := json.NewDecoder(bytes.NewReader([]byte(text))).Decode(&d); err != nil {
		t.Fatal(err)
	}
	if d.UID != "stategraft" || d.Title != "Stategraft" || d.ID != nil || d.SchemaVersion < 42 {
		t.Errorf("uid %q, title %q, id %v, schemaVersion %d", d.UID, d.Title, d.ID, d.SchemaVersion)
	}
	known, used := metrics(t), map[string]bool{}
	chosen := datasource{"prometheus", "${datasource}"}
	ids, taken := map[int]string{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if other, ok := ids[p.ID]; ok || p.ID == 0 {
			t.Errorf("panel %q has id %d, as %q", p.Title, p.ID, other)
		}
		ids[p.ID] = p.Title
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other, ok := taken[[2]int{x, y}]; ok || x >= 24 {
					t.Fatalf("panel %q lies over %q or beyond the edge", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Title == "" || (p.Type == "row") != (len(p.Targets) == 0) || p.Type != "row" && (p.Description == "" || p.Datasource != chosen) {
			t.Errorf("panel %d: type %q, title %q, description %q, %d targets, data source %v", p.ID, p.Type, p.Title, p.Description, len(p.Targets), p.Datasource)
		}
		refs := map[string]bool{}
		for _, target := range p.Targets {
			if refs[target.RefID] || target.RefID == "" || target.Datasource != chosen {
				t.Errorf("panel %q: refId %q, data source %v", p.Title, target.RefID, target.Datasource)
			}
			refs[target.RefID] = true
			for _, name := range checkNames(t, "panel "+p.Title, variables.Replace(target.Expr), known) {
				used[name] = true
			}
		}
	}
	for name := range known {
		if strings.HasPrefix(name, "stategraft_") && !used[name] && !unseen[name] {
			t.Errorf("the dashboard does not show %s", name)
		}
	}
	for _, v := range d.Templating.List {
		if v.Type == "query" {
			metric, _, _ := strings.Cut(strings.TrimPrefix(v.Definition, "label_values("), ",")
			if _, _, ok := find(metric, known); !ok {
				t.Errorf("variable %s is made of %s, which is no metric", v.Name, metric)
			}
		}
	}
	if strings.Contains(variables.Replace(text), `expr": "$`) {
		t.Error("an expression begins with a variable that is not known here")
	}
}

// unseen are metrics that only alerts ask for.
var unseen = map[string]bool{"stategraft_held_back_dropped_total": true}
