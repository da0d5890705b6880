package grafana

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/grafana/grafana-foundation-sdk/go/bargauge"
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	sdk "github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// schemaVersion is that of Grafana 10.0; newer ones read it and migrate it.
const schemaVersion = 38

// Files are the dashboards as Grafana reads them, by the names of their files.
func Files() (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, d := range Dashboards() {
		text, err := d.JSON()
		if err != nil {
			return nil, fmt.Errorf("dashboard %s: %w", d.Name, err)
		}
		files[d.Name+".json"] = text
	}
	return files, nil
}

// Write writes the files into a directory, which it makes.
func Write(dir string) error {
	files, err := Files()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// JSON is the dashboard as Grafana reads it.
func (d Dashboard) JSON() ([]byte, error) {
	b := sdk.NewDashboardBuilder(d.Title). //nolint:staticcheck // what replaces it is for Grafana 12 and newer
						Uid("selvage-"+d.Name).Description(d.Description).Tags([]string{"selvage"}).
						Time("now-1h", "now").Refresh("30s").Timezone("browser").Tooltip(sdk.DashboardCursorSyncCrosshair).Editable()
	for _, v := range variables(d.OneEdge) {
		b = b.WithVariable(v)
	}
	b = b.Annotation(sdk.NewAnnotationQueryBuilder().Name("Alerts").Datasource(source()).Enable(true).IconColor("red").
		Expr(`ALERTS{alertname=~"Selvage.+", alertstate="firing", ` + chosen + `}`).TitleFormat("{{alertname}}").TextFormat("{{instance}} {{severity}}"))
	b = b.Link(sdk.NewDashboardLinkBuilder("Dashboards").Type(sdk.DashboardLinkTypeDashboards).Url("").Tags([]string{"selvage"}).
		AsDropdown(true).IncludeVars(true).KeepTime(true).Icon("external link").Tooltip("The other dashboards of Selvage"))
	b = b.Link(sdk.NewDashboardLinkBuilder("Run-book").Type(sdk.DashboardLinkTypeLink).Url(runbook).TargetBlank(true).
		Icon("doc").Tooltip("What to do, by symptom"))
	id, y := uint32(0), uint32(0)
	for _, row := range d.Rows {
		id++
		b = b.WithRow(sdk.NewRowBuilder(row.Title).Id(id).GridPos(sdk.GridPos{X: 0, Y: y, W: 24, H: 1}))
		y++
		x, height := uint32(0), uint32(0)
		for _, p := range row.Panels {
			if x+p.width() > 24 {
				x, y, height = 0, y+height, 0
			}
			id++
			b = b.WithPanel(p.build(id, sdk.GridPos{X: x, Y: y, W: p.width(), H: p.height()}))
			x, height = x+p.width(), max(height, p.height())
		}
		y += height
	}
	built, err := b.Build()
	if err != nil {
		return nil, err
	}
	built.SchemaVersion = schemaVersion
	inSight(&built)
	text, err := json.MarshalIndent(built, "", "  ")
	return append(text, '\n'), err
}

// inSight has links and annotations be in sight and not in a menu, of which Grafana 10 knows nothing.
func inSight(d *sdk.Dashboard) { //nolint:staticcheck // as above
	for i := range d.Annotations.List {
		d.Annotations.List[i].Placement = nil
	}
	for i := range d.Links {
		d.Links[i].Placement = nil
	}
	for _, p := range d.Panels {
		if p.Panel == nil { // a row
			continue
		}
		for i := range p.Panel.Links {
			p.Panel.Links[i].Placement = nil
		}
	}
}

// variables are what the reader chooses: the data source, the job of the scrape, and edges by their
// names. Metrics tell edges apart by instance; selvage_edge_info has both.
func variables(one bool) []cog.Builder[sdk.VariableModel] {
	text := func(s string) sdk.StringOrMap { return sdk.StringOrMap{String: &s} }
	job := sdk.NewQueryVariableBuilder("job").Hide(sdk.VariableHideDontHide).Label("Job").Description("Scrape jobs that have edges").
		Datasource(source()).Query(text("label_values(selvage_edge_info, job)")).Refresh(sdk.VariableRefreshOnTimeRangeChanged).
		Sort(sdk.VariableSortAlphabeticalAsc).IncludeAll(true).Multi(true).Current(everything())
	name := sdk.NewQueryVariableBuilder("edge").Hide(sdk.VariableHideDontHide).Label("Edge").Description("Edges by name").
		Datasource(source()).Query(text(`query_result(selvage_edge_info{job=~"$job"})`)).Refresh(sdk.VariableRefreshOnTimeRangeChanged).
		Regex(`/edge="(?<text>[^"]+)".*instance="(?<value>[^"]+)"/`).Sort(sdk.VariableSortAlphabeticalAsc)
	if !one {
		name = name.IncludeAll(true).Multi(true).AllValue(".+").Current(everything())
	}
	return []cog.Builder[sdk.VariableModel]{
		sdk.NewDatasourceVariableBuilder("datasource").Hide(sdk.VariableHideDontHide).Label("Data source").Description("Prometheus that scrapes the edges").Type("prometheus"),
		job, name,
	}
}

// everything is the choice of all values.
func everything() sdk.VariableOption {
	all, value := "All", "$__all"
	return sdk.VariableOption{Text: sdk.StringOrArrayOfString{String: &all}, Value: sdk.StringOrArrayOfString{String: &value}}
}

func source() common.DataSourceRef {
	kind, uid := "prometheus", "${datasource}"
	return common.DataSourceRef{Type: &kind, Uid: &uid}
}

// build is the panel at a place.
func (p Panel) build(id uint32, at sdk.GridPos) cog.Builder[sdk.Panel] {
	switch p.Kind {
	case Stat:
		b := stat.NewPanelBuilder().Id(id).GridPos(at).Title(p.Title).Description(p.Description).Datasource(source()).Unit(p.Unit).
			Links(p.links()).Thresholds(p.thresholds()).Mappings(p.mappings()).ReduceOptions(last()).GraphMode(common.BigValueGraphModeNone).
			Orientation(common.VizOrientationAuto)
		return withTargets(p, b, b.WithTarget)
	case Bars:
		b := bargauge.NewPanelBuilder().Id(id).GridPos(at).Title(p.Title).Description(p.Description).Datasource(source()).Unit(p.Unit).
			Links(p.links()).Thresholds(p.thresholds()).ReduceOptions(last()).Orientation(common.VizOrientationHorizontal).Min(0)
		if p.Full {
			b = b.Max(1)
		}
		return withTargets(p, b, b.WithTarget)
	case Table:
		return p.table(id, at)
	}
	b := timeseries.NewPanelBuilder().Id(id).GridPos(at).Title(p.Title).Description(p.Description).Datasource(source()).Unit(p.Unit).
		Links(p.links()).Thresholds(p.thresholds()).Mappings(p.mappings()).Min(0).LineWidth(1).FillOpacity(10).ShowPoints(common.VisibilityModeNever).
		Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderDescending)).
		Legend(common.NewVizLegendOptionsBuilder().ShowLegend(true).DisplayMode(common.LegendDisplayModeTable).
			Placement(common.LegendPlacementRight).Calcs([]string{"lastNotNull", "max"}))
	if p.Full {
		b = b.Max(1)
	}
	if p.Bad != 0 {
		b = b.ThresholdsStyle(common.NewGraphThresholdsStyleConfigBuilder().Mode(common.GraphThresholdsStyleModeDashed))
	}
	if p.Stacked {
		b = b.Stacking(common.NewStackingConfigBuilder().Mode(common.StackingModeNormal)).FillOpacity(40)
	}
	return withTargets(p, b, b.WithTarget)
}

// withTargets adds the queries to a panel of any kind.
func withTargets[B cog.Builder[sdk.Panel]](p Panel, b B, add func(cog.Builder[variants.Dataquery]) B) cog.Builder[sdk.Panel] {
	for i, q := range p.Queries {
		target := prometheus.NewDataqueryBuilder().RefId(string(rune('A' + i))).Datasource(source()).Expr(q.Expr).LegendFormat(q.Legend)
		switch p.Kind {
		case Series:
			target = target.Range()
		case Table:
			target = target.Instant().Format(prometheus.PromQueryFormatTable)
		default:
			target = target.Instant()
		}
		b = add(target)
	}
	return b
}

func last() cog.Builder[common.ReduceDataOptions] {
	return common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"}).Values(false)
}

// table has a column for each label and each query.
func (p Panel) table(id uint32, at sdk.GridPos) cog.Builder[sdk.Panel] {
	b := table.NewPanelBuilder().Id(id).GridPos(at).Title(p.Title).Description(p.Description).Datasource(source()).Unit(p.Unit).
		Thresholds(p.thresholds()).Mappings(p.mappings()).Filterable(true).ShowHeader(true).
		Footer(common.NewTableFooterOptionsBuilder().Reducer([]string{"sum"}))
	names, order := map[string]string{}, map[string]int{}
	for _, c := range p.Columns {
		names[c.Label], order[c.Label] = c.Head, len(order)
	}
	for i, q := range p.Queries {
		value := "Value"
		if len(p.Queries) > 1 {
			value += " #" + string(rune('A'+i))
		}
		names[value], order[value] = q.Legend, len(order)
		if q.Unit != "" {
			b = b.OverrideByName(q.Legend, []sdk.DynamicConfigValue{{Id: "unit", Value: q.Unit}})
		}
	}
	keep := slices.Sorted(maps.Keys(order))
	slices.SortFunc(keep, func(a, b string) int { return order[a] - order[b] })
	if len(p.Queries) > 1 {
		b = b.WithTransformation(sdk.DataTransformerConfig{Id: "merge", Options: map[string]any{}})
	}
	b = b.WithTransformation(sdk.DataTransformerConfig{Id: "filterFieldsByName", Options: map[string]any{"include": map[string]any{"names": keep}}}).
		WithTransformation(sdk.DataTransformerConfig{Id: "organize", Options: map[string]any{"indexByName": order, "renameByName": names}})
	if len(p.Links) > 0 {
		b = b.OverrideByName(p.Columns[0].Head, []sdk.DynamicConfigValue{{Id: "links", Value: []map[string]any{{"title": p.Links[0].Title, "url": p.Links[0].URL}}}})
	}
	return withTargets(p, b, b.WithTarget)
}

func (p Panel) links() (list []cog.Builder[sdk.DashboardLink]) {
	for _, l := range p.Links {
		list = append(list, sdk.NewDashboardLinkBuilder(l.Title).Type(sdk.DashboardLinkTypeLink).Url(l.URL).TargetBlank(true))
	}
	return list
}

// thresholds colour what is bad.
func (p Panel) thresholds() cog.Builder[sdk.ThresholdsConfig] {
	below, above := "green", "red"
	if p.Low {
		below, above = above, below
	}
	steps := []sdk.Threshold{{Color: below}}
	if p.Bad == 0 {
		steps = []sdk.Threshold{{Color: "green"}}
	} else {
		steps = append(steps, sdk.Threshold{Value: &p.Bad, Color: above})
	}
	return sdk.NewThresholdsConfigBuilder().Mode(sdk.ThresholdsModeAbsolute).Steps(steps)
}

// mappings are words instead of numbers.
func (p Panel) mappings() []sdk.ValueMapping {
	if len(p.States) == 0 {
		return nil
	}
	options := map[string]sdk.ValueMappingResult{}
	for value, text := range p.States {
		options[value] = sdk.ValueMappingResult{Text: &text}
	}
	return []sdk.ValueMapping{{ValueMap: &sdk.ValueMap{Type: "value", Options: options}}}
}
