package ask

// everyday are words of code and short words of prose that are no names by themselves: of R and Python and their libraries, of folders and files, and of English, German, French and Spanish.
const everyday = `
abs aes agg aggregate all and any append apply args array arrange as assert assign astype async await axes axis bar base bind bins bool boxplot break by bytes case cast cat category cbind
ceil char chart class coalesce code coef col color colour columns combine concat continue copy cor count counts cross cumsum cut data dataframe date datetime day def default del describe desc diff
dict dim display distinct double drop dropna dtype duplicated elif else enumerate env error eval every except exec exp extract facet factor false fill filter filtered final finally first fit flag flights float floor for
format frame from full func function gather geom ggplot glimpse global group grouped groupby grid gsub head height hist histogram hour iloc import in index info inner input int integer intersect inf inplace is
isna item items iter iterrows join json key keys kind labels label lag lambda lapply last layout lead left len length level levels lib library limit line linear lines list load loc local log logical long loop lower
main map marker match math matrix max mean median melt merge message meta method mget min minute missing mode model module month mutate name names ncol next none nonlocal not nrow nth null numeric numpy
nunique object only open option options order ordered other outer output package palette pandas param params parse part paste path period pivot plot plots plotly plots point points position pow pred predict
print prod product query quantile quarter quote raise random range rank ratio raw rbind read recode record region regex relocate rename rep repeat replace reset reshape result results return rev right
rolling round row rows rowsum sample sapply save scale scatter seaborn second select self seq series set setdiff setnames shape shift show size slice sns sort source split spread sqrt stack
start stats std step stop store str string strip style sub subset sum summarise summarize summary super switch table tail tapply target temp test text theme tibble tidy tidyr tidyverse time timestamp title token
tolower total train transform true trunc try tuple type types unique unlist unnest unstack upper use utils val value values var variable vector version view where which while width window with within write xlab xlim
xmax xmin year yield ylab ylim ymax ymin zero zip
account admin administrator analysis assignment book chapter class colab content course data dataset desktop documents download downloads draft exam exercise files folder guest hello homework lab lecture lesson
local machine notebook notebooks paper private project projects public report repo scratch script scripts section server shared solution source staff student students submission submitted task teacher team template
test tmp tutorial unit user users version week work working workspace
about above after again also because been before being below between both came can come could data does done down each even ever from gave gets give goes good have here high into just keep kept know like
long look made make many more most much must need next once over same seen shall should some such sure take than that their them then there these they thing this those three took true turn under until used very want
were what when will within without would your
aber alle allem allen alles also andere auch beim bald dann dass dein denn dies doch dort eine einem einen einer eines erst etwa fast gibt gute hatte haben hier ihre kann klar mehr mein mich mich nach nein noch nur
oder ohne schon sehr sein seine sich sind soll sonst teil tun über unter viel vier vom wann ware weil weit welt wenig wenn wert wird wohl zeit zum zwei
alors aussi avec cela cette comme dans deux donc elle elles encore entre fait leur mais meme moins notre nous pour plus quand sans sera sont sous sur tout tous tres votre vous
algo cada como cual cuando desde donde ella ellos entre esta este esto hace hacia hasta menos mismo mucho nada otra otro para pero poco porque puede sino sobre solo tiene todo todos
bin binti da das de dei del della den der des di dos du ibn la las le les los san santa ten ter tot van von vom zu zur
`
