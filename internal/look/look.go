// Package look is the visual language that all of Tandem's pages share: colours, type, chips, tables, tiles.
package look

import _ "embed"

// CSS is the style sheet that every page begins with. It needs nothing from elsewhere.
//
//go:embed base.css
var CSS string
