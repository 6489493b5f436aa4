package class

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"

	"tandem/examples/class/table"
)

// barChart draws the column revenue of a table as a picture: bars and an axis, without letters.
func barChart(t *table.Table) ([]byte, error) {
	const width, height, margin = 240, 150, 12
	canvas := image.NewPaletted(image.Rect(0, 0, width, height), color.Palette{color.White, color.Gray{60}, color.RGBA{70, 130, 180, 255}})
	fill := func(r image.Rectangle, index uint8) {
		draw.Draw(canvas, r, image.NewUniform(canvas.Palette[index]), image.Point{}, draw.Src)
	}
	revenue := make([]float64, len(t.Rows))
	most := 0.0
	for i, row := range t.Select("revenue").Rows {
		revenue[i] = row[0].(float64)
		most = max(most, revenue[i])
	}
	step := (width - 2*margin) / len(revenue)
	for i, r := range revenue {
		x, h := margin+i*step, int(r/most*(height-2*margin))
		fill(image.Rect(x+step/6, height-margin-h, x+step, height-margin), 2)
	}
	fill(image.Rect(margin, margin, margin+1, height-margin), 1)
	fill(image.Rect(margin, height-margin, width-margin, height-margin+1), 1)
	var b bytes.Buffer
	if err := png.Encode(&b, canvas); err != nil {
		return nil, fmt.Errorf("draw chart: %w", err)
	}
	return b.Bytes(), nil
}
